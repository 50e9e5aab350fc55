#!/usr/bin/env bash
# Tests the chart and the examples: by helm, by the operator's own rules, and against an API server of their own.
#
#   chart.sh     needs tests/cluster/cluster.sh build kube etcd helm
#
# Environment:
#   LOCKSTEP_OPERATOR   the operator's program; it judges the examples

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
chart=$root/charts/lockstep
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep
operator=${LOCKSTEP_OPERATOR:-}
[ -x "$operator" ] || { echo "chart.sh: LOCKSTEP_OPERATOR must name the operator's program" >&2; exit 1; }
# Parses expressions of alerts; a wheel without dependencies.
promql='promql-parser==0.11.0'

work=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-chart-XXXXXX")
export CLUSTER_STATE=$work/cluster KUBECONFIG=$work/cluster/admin.kubeconfig
# A stray configuration of the machine must not matter.
export KUBECACHEDIR=$work/kube HELM_CACHE_HOME=$work/helm/cache HELM_CONFIG_HOME=$work/helm/config HELM_DATA_HOME=$work/helm/data
trap 'bash "$here/cluster.sh" down >/dev/null 2>&1; rm -rf "$work"' EXIT
PATH=$(bash "$here/cluster.sh" path):$PATH

system=lockstep-system
as_operator=--as=system:serviceaccount:$system:lockstep-operator

ok() { echo "ok: $*"; }
wrong() { echo "chart.sh: $*" >&2; exit 1; }

# refused WORDS COMMAND... : the command must fail and say the words.
refused() {
  local words=$1 said
  shift
  if said=$("$@" 2>&1); then wrong "not refused: $*"; fi
  grep -qF -- "$words" <<<"$said" || wrong "refused without \"$words\": $*"$'\n'"$said"
}

# json FILE : a file with one YAML document as JSON, by helm's own reading.
json() {
  local folder
  folder=$(mktemp -d "$work/json-XXXXXX")
  mkdir "$folder/templates"
  cp "$1" "$folder/file"
  printf 'apiVersion: v2\nname: json\nversion: 0.0.1\n' >"$folder/Chart.yaml"
  printf '{{ .Files.Get "file" | fromYaml | toJson }}\n' >"$folder/templates/all.yaml"
  helm template json "$folder" | grep '^{'
}

# --- the matrix ---------------------------------------------------------------

everything=$work/everything.yaml
cat >"$everything" <<'YAML'
fullnameOverride: messages
nameOverride: messages
commonLabels: {team: shop}
replicas: 3
image: {repository: "registry.example.com:5000/lockstep/operator", tag: "1.2", pullPolicy: Always}
imagePullSecrets: [{name: registry}]
sidecar:
  image:
    repository: registry.example.com/lockstep/sidecar
    digest: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
watchNamespaces: [shop, mall]
upgradeGroups: 2
logLevel: debug
logFormat: text
listenHost: "[::]"
port: 9000
crds: {enabled: true, keep: false}
serviceAccount: {name: messages-operator, annotations: {example.com/role: messages}}
podDisruptionBudget: {maxUnavailable: 50%}
networkPolicy:
  enabled: true
  from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]
resources: {requests: {cpu: 50m, memory: 64Mi}, limits: {cpu: 1, memory: 128Mi}}
podAnnotations: {example.com/a: b}
podLabels: {example.com/c: d}
priorityClassName: system-cluster-critical
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{key: dedicated, operator: Exists, effect: NoSchedule}]
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: In, values: [fast]}]}]
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: topology.kubernetes.io/zone
  whenUnsatisfiable: ScheduleAnyway
  labelSelector: {matchLabels: {app.kubernetes.io/component: operator}}
extraEnv: [{name: HTTPS_PROXY, value: "http://proxy:3128"}]
metrics:
  podMonitor: {enabled: true, labels: {release: prometheus}, interval: 15s, scrapeTimeout: 5s}
  prometheusRule: {enabled: true, labels: {release: prometheus}, alertLabels: {team: shop}, oldestAgeSeconds: 60}
YAML

cat >"$work/bare.yaml" <<'YAML'
crds: {enabled: false}
tests: {enabled: false}
rbac: {create: false, aggregate: false}
serviceAccount: {create: false, name: mine}
podDisruptionBudget: {enabled: false}
admissionPolicy: {enabled: false}
YAML

names=(defaults everything watchNamespaces crds-off)
declare -A matrix=([defaults]="" [everything]="--values=$everything" [watchNamespaces]="--set=watchNamespaces={shop,mall}"
  [crds-off]="--values=$work/bare.yaml")

# render NAME [ARGUMENT...] : the chart with the values of that name.
render() {
  local options=()
  [ -z "${matrix[$1]}" ] || options=("${matrix[$1]}")
  helm template lockstep "$chart" --namespace "$system" "${options[@]}" "${@:2}"
}

linted() {
  local name options
  for name in "${names[@]}"; do
    options=()
    [ -z "${matrix[$name]}" ] || options=("${matrix[$name]}")
    helm lint --strict --quiet "$chart" "${options[@]}" || wrong "helm lint: $name"
    ok "helm lint --strict: $name"
  done
}

versions() {
  local wanted base
  wanted=$(sed -n '/^\[workspace.package\]/,/^$/ s/^version = "\(.*\)"/\1/p' "$root/Cargo.toml")
  for line in "version: $wanted" "appVersion: \"$wanted\""; do
    grep -qxF "$line" "$chart/Chart.yaml" || wrong "Chart.yaml must say '$line', as Cargo.toml does"
  done
  wanted=$(sed -n 's/^channel = "\(.*\)"/\1/p' "$root/rust-toolchain.toml")
  for base in sidecar operator; do
    grep -q "^FROM rust:$wanted-" "$root/$base/Dockerfile" || wrong "$base/Dockerfile must build with Rust $wanted"
  done
  render defaults --kube-version v1.33.4-vendor.1 >/dev/null
  refused ">=1.33.0-0" render defaults --kube-version v1.32.9
  ok "the chart's versions are the workspace's, and it wants Kubernetes 1.33"
}

typos() {
  local case
  for case in "imagee|imagee.tag=1" "tagg|image.tagg=1" "pullPolicy|sidecar.image.pullPolicy=Always" \
    "replicas|replicas=two" "replicas|replicas=-1" "logLevel|logLevel=loud" "watchNamespaces|watchNamespaces={A_b}" \
    "keeps|crds.keeps=true" "intervall|metrics.podMonitor.intervall=30s" "interval|metrics.podMonitor.interval=30" \
    "digest|image.digest=sha256:12" "port|port=80" "limit|resources.limit.memory=1Gi" "podAnnotations|podAnnotations.a=1" \
    "enable|tests.enable=true" "upgradeGroups|upgradeGroups=0" "podAntiaffinity|affinity.podAntiaffinity.a=b" \
    "tolerations|tolerations={a}" "commonLabels|commonLabels.app\.kubernetes\.io/name=other" \
    "serviceAccount.name is missing|serviceAccount.create=false"; do
    refused "${case%%|*}" helm template lockstep "$chart" --set="${case#*|}"
  done
  ok "mistaken values are refused, and the message names them"
}

# Every key of values.yaml has a sentence there, a rule in the schema, and a line in the README with its default.
documented() {
  python3 - "$chart" <<'PYTHON'
import json, re, sys
chart = sys.argv[1]
readme = dict(re.findall(r"^\| `([\w.]+)` \| (.*?) \|", open(f"{chart}/README.md").read(), re.M))
schema = json.load(open(f"{chart}/values.schema.json"))
stack, told, wrong = [], False, []
lines = [line for line in open(f"{chart}/values.yaml").read().split("\n") if line.strip()]
for line in lines:
    depth = (len(line) - len(line.lstrip())) // 2
    comment, key = re.match(r" *# (-- )?", line), re.match(r" *(\w+):(?: (.*))?$", line)
    if comment:
        told = told or bool(comment[1])
    if not key or stack[:1] == ["resources"] and depth:
        continue
    stack = stack[:depth] + [key[1]]
    path, node = ".".join(stack), schema
    for part in stack:
        node = node.get("properties", {}).get(part)
        if node is None:
            wrong.append(f"{path}: values.schema.json does not know it")
            break
    if told:
        default = f"`{key[2]}`" if key[2] else "see values.yaml"
        if readme.pop(path, None) != default:
            wrong.append(f"{path}: README.md must have the line | `{path}` | {default} | ... |")
    elif key[2]:
        wrong.append(f"{path}: values.yaml does not say what it is")
    told = False
wrong += [f"{path}: README.md has it, and values.yaml has not" for path in readme]
sys.exit("\n".join(wrong) or 0)
PYTHON
  ok "every value is described"
}

# --- alerts -------------------------------------------------------------------

alerts() {
  local parser=$cache/${promql/==/-}
  if [ ! -d "$parser" ]; then
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --only-binary=:all: --no-deps \
      --target "$parser.part" "$promql"
    mv "$parser.part" "$parser"
  fi
  render everything --show-only templates/prometheusrule.yaml | kubectl apply \
    --dry-run=server --validate=strict --output json --filename - >"$work/rule.json"
  PYTHONPATH=$parser python3 - "$work/rule.json" "$root/docs/metrics.md" <<'PYTHON'
import json, re, sys
import promql_parser
rules = [rule for group in json.load(open(sys.argv[1]))["spec"]["groups"] for rule in group["rules"]]
known, wrong = set(re.findall(r"lockstep_\w+", open(sys.argv[2]).read())), []
for rule in rules:
    name, text = rule["alert"], rule["expr"]
    try:
        promql_parser.parse(text)
    except Exception as error:
        wrong.append(f"{name}: {error}: {text}")
    used = set(re.findall(r"\blockstep_\w+", text))
    wrong += [f"{name}: docs/metrics.md does not know {metric}" for metric in used - known]
    if not used:
        wrong.append(f"{name}: no metric of ours in {text}")
    if {"severity", "team"} - rule["labels"].keys() or {"summary", "description"} - rule["annotations"].keys():
        wrong.append(f"{name}: a label or an annotation is missing")
    for part in rule["annotations"].values():
        for label in re.findall(r"\$labels\.(\w+)", part):
            if not re.search(rf"by \([^)]*\b{label}\b", text):
                wrong.append(f"{name}: the expression keeps no label {label}")
text = " ".join(rule["expr"] for rule in rules)
for needed in ("Blocked", "oldest_age", "ApplicationHealthy", "SourceConnected", "QueuesOwned"):
    if needed not in text:
        wrong.append(f"no alert about {needed}")
sys.exit("\n".join(wrong) or 0)
PYTHON
  ok "alerts parse, and their metrics are documented ones"
}

# --- the API server -----------------------------------------------------------

# Kinds of the Prometheus operator, with the fields that the chart uses: others are refused.
stub_kinds() {
  local texts='{type: object, additionalProperties: {type: string}}' list='{type: array, items: {type: string}}'
  local head='apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:'
  local tail='schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties:'
  kubectl apply --filename - >/dev/null <<YAML
$head {name: podmonitors.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  names: {kind: PodMonitor, plural: podmonitors}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    $tail {
      namespaceSelector: {type: object, properties: {any: {type: boolean}, matchNames: $list}},
      selector: {type: object, properties: {matchLabels: $texts, matchExpressions: {type: array, items: {type: object,
        properties: {key: {type: string}, operator: {type: string}, values: $list}}}}},
      podMetricsEndpoints: {type: array, items: {type: object, properties: {port: {type: string}, path: {type: string},
        interval: {type: string}, scrapeTimeout: {type: string}, honorLabels: {type: boolean},
        relabelings: {type: array, items: {type: object, properties: {action: {type: string}, sourceLabels: $list,
          targetLabel: {type: string}}}}}}}}}}}}
---
$head {name: prometheusrules.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  names: {kind: PrometheusRule, plural: prometheusrules}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    $tail {
      groups: {type: array, items: {type: object, properties: {name: {type: string}, rules: {type: array, items: {
        type: object, properties: {alert: {type: string}, expr: {type: string}, for: {type: string}, labels: $texts,
          annotations: $texts}}}}}}}}}}}
YAML
  serves monitoring.coreos.com/v1/podmonitors
  serves monitoring.coreos.com/v1/prometheusrules
}

# serves PATH : waits until the API server does.
serves() {
  local since=$SECONDS
  until kubectl get --raw "/apis/$1" >/dev/null 2>&1; do
    [ $((SECONDS - since)) -lt 60 ] || wrong "the API server does not serve $1"
    sleep 0.1
  done
}

# The definition is the generated one, and the server takes all objects to the last field.
accepted() {
  local name
  render defaults --show-only templates/crd.yaml >"$work/crd.yaml"
  python3 - <(json "$work/crd.yaml") <(json "$chart/files/consumergroups.lockstep.dev.yaml") <<'PYTHON'
import json, sys
rendered, generated = (json.load(open(file)) for file in sys.argv[1:])
if rendered["metadata"].pop("annotations") != {"helm.sh/resource-policy": "keep"}:
    sys.exit("the definition would not be kept")
rendered["metadata"].pop("labels")
if rendered != generated:
    sys.exit("the chart changes the definition")
PYTHON
  ok "the definition is the generated one"
  kubectl apply --server-side --filename "$work/crd.yaml" >/dev/null
  serves lockstep.dev/v1alpha1/consumergroups
  for name in "${names[@]}"; do
    render "$name" | kubectl apply --server-side --force-conflicts --dry-run=server --validate=strict \
      --field-manager=chart --filename - >/dev/null || wrong "the API server refuses: $name"
    ok "valid for the API server: $name"
  done
  # It must be Helm's from the beginning.
  kubectl delete --filename "$work/crd.yaml" >/dev/null
}

install() { helm upgrade --install lockstep "$chart" --namespace "$system" "$@" >"$work/notes" 2>&1 || wrong "$(cat "$work/notes")"; }

# What the operator does, by its sources: group, resource, verbs; in brackets the only object.
work_of_groups='
lockstep.dev consumergroups get list watch
lockstep.dev consumergroups/status get patch
lockstep.dev consumergroups/finalizers update
apps deployments get list watch create patch
apps replicasets get list watch
core configmaps get list watch create patch delete
policy poddisruptionbudgets get list watch create patch delete
core pods get list watch patch
events.k8s.io events create patch
'
# In the whole cluster alone.
work_on_definition='
apiextensions.k8s.io customresourcedefinitions[consumergroups.lockstep.dev] get
'
work_of_leader='
coordination.k8s.io leases create
coordination.k8s.io leases[lockstep-operator] get update
'

# rights NAMESPACE WANTED : what the operator may do there is that, no more and no less.
rights() {
  printf '{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": "%s"}}' "$1" |
    kubectl create "$as_operator" --validate=false --output json --filename - >"$work/rights.json"
  WANTED=$2 python3 - "$1" "$work/rights.json" <<'PYTHON'
import json, os, sys
wanted, have = set(), set()
for line in filter(None, os.environ["WANTED"].split("\n")):
    group, resource, *verbs = line.split()
    wanted |= {(group, resource, verb) for verb in verbs}
for rule in json.load(open(sys.argv[2]))["status"]["resourceRules"]:
    for group in rule["apiGroups"]:
        # Everybody may ask who they are and what they may.
        if group in ("authentication.k8s.io", "authorization.k8s.io"):
            continue
        names = rule.get("resourceNames") or [None]
        have |= {
            (group or "core", f"{resource}[{name}]" if name else resource, verb)
            for resource in rule["resources"] for verb in rule["verbs"] for name in names
        }
wrong = [f"the operator lacks {right} in {sys.argv[1]}" for right in sorted(wanted - have)]
wrong += [f"the operator has {right} in {sys.argv[1]}" for right in sorted(have - wanted)]
sys.exit("\n".join(wrong) or 0)
PYTHON
  [ "$(kubectl auth can-i get secrets --namespace "$1" "$as_operator" 2>/dev/null)" = no ] ||
    wrong "the operator may read Secrets in $1"
}

# patch POD PATCH [ARGUMENT...] : as the operator.
patch() { kubectl --namespace shop patch pod "$1" "$as_operator" --type=merge --patch="$2" "${@:3}"; }

# What RBAC can't say of pods.
limited() {
  local patch pod='{"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "app", "image": "app:1"}]},'
  kubectl --namespace shop create --filename - >/dev/null \
    <<<"$pod \"metadata\": {\"name\": \"ours\", \"labels\": {\"lockstep.dev/consumergroup\": \"orders\"}, \"annotations\": {\"own\": \"1\"}}}"
  kubectl --namespace shop create --filename - >/dev/null <<<"$pod \"metadata\": {\"name\": \"other\"}}"
  # A new policy holds a moment after it is there.
  local since=$SECONDS
  while patch ours '{"metadata": {"annotations": {"more": "1"}}}' --dry-run=server >/dev/null 2>&1; do
    [ $((SECONDS - since)) -lt 60 ] || wrong "the policy does not hold"
    sleep 0.1
  done
  for patch in '"lockstep.dev/hot-hash": "1"' '"lockstep.dev/hot-hash": "2", "lockstep.dev/assignment": "[]"' \
    '"lockstep.dev/hot-hash": null'; do
    patch ours "{\"metadata\": {\"annotations\": {$patch}}}" >/dev/null || wrong "the operator may not write $patch"
  done
  for patch in '"own": "2"' '"own": null' '"more": "1"' '"lockstep.dev/hot-hash": "3", "more": "1"'; do
    refused "annotations below lockstep.dev/" patch ours "{\"metadata\": {\"annotations\": {$patch}}}"
  done
  refused "no pod's spec" patch ours '{"spec": {"containers": [{"name": "app", "image": "other:1"}]}}'
  refused "no pod's spec" patch ours '{"spec": {"activeDeadlineSeconds": 1}}'
  for patch in '"labels": {"a": "b"}' '"finalizers": ["example.com/a"]' '"labels": {"lockstep.dev/consumergroup": null}' \
    '"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "other", "uid": "1"}]'; do
    refused "labels, owners or finalizers" patch ours "{\"metadata\": {$patch}}"
  done
  refused "pods of ConsumerGroups only" patch other '{"metadata": {"annotations": {"lockstep.dev/hot-hash": "1"}}}'
  refused 'resource "pods/status"' patch ours '{"status": {"message": "a"}}' --subresource=status
  kubectl --namespace shop annotate pod ours own=2 --overwrite >/dev/null
  ok "the operator changes nothing of a pod but its own annotations"
}

# Both kinds of the chart's pods, where the namespace enforces it.
restricted() {
  local pods=$work/pods.json
  { kubectl --namespace "$system" get deployment lockstep-operator --output json; render defaults \
    --show-only templates/tests/render.yaml | kubectl apply --dry-run=server --output json --filename -; } |
    python3 -c '
import json, sys
text, read, pods = sys.stdin.read(), json.JSONDecoder(), []
while text.strip():
    value, end = read.raw_decode(text.lstrip())
    text = text.lstrip()[end:]
    for item in value.get("items", [value]):
        if item["kind"] in ("Deployment", "Pod"):
            spec = item["spec"]["template"]["spec"] if item["kind"] == "Deployment" else item["spec"]
            pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"try-{len(pods)}"}, "spec": spec})
assert len(pods) == 2, pods
print(json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))' >"$pods"
  kubectl --namespace "$system" create --dry-run=server --filename "$pods" >/dev/null
  refused "violates PodSecurity" kubectl --namespace "$system" create --dry-run=server --filename - \
    <<<'{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "try"}, "spec": {"containers": [{"name": "a", "image": "a"}]}}'
  ok "the chart's pods pass the restricted Pod Security level"
}

# An upgrade, an uninstallation and an installation anew leave groups where they are; two releases live side by side.
life() {
  kubectl --namespace shop apply --filename "$root/examples/minimal.yaml" >/dev/null
  local uid
  uid=$(kubectl --namespace shop get cgrp orders --output jsonpath='{.metadata.uid}')
  install --set=podAnnotations.upgraded=yes,logLevel=debug
  grep -q "WARNING: logLevel is debug" "$work/notes" || wrong "the notes do not warn"
  helm uninstall lockstep --namespace "$system" >/dev/null 2>&1
  [ "$(kubectl get clusterroles,validatingadmissionpolicies --output name | grep -c lockstep)" = 0 ] || wrong "something is left"
  install "${matrix[watchNamespaces]}"
  [ "$(kubectl --namespace shop get cgrp orders --output jsonpath='{.metadata.uid}')" = "$uid" ] || wrong "the group is gone"
  ok "groups outlive the chart"
  rights shop "$work_of_groups"
  rights mall "$work_of_groups"
  rights elsewhere ""
  rights "$system" "$work_of_leader"
  ok "with watchNamespaces the operator has rights in these alone"
  helm install lockstep "$chart" --namespace elsewhere \
    --set='watchNamespaces={elsewhere},crds.enabled=false,rbac.aggregate=false' >/dev/null 2>&1 || wrong "no second release"
  helm uninstall lockstep --namespace elsewhere >/dev/null 2>&1
  ok "two releases live side by side"
}

# --- the examples -------------------------------------------------------------

examples() {
  local file name
  for file in "$root"/examples/*.yaml "$root"/examples/*/*.yaml; do
    name="${file#"$root/examples/"}"
    "$operator" render -f "$file" >/dev/null || wrong "the operator refuses $file"
    kubectl --namespace elsewhere apply --dry-run=server --validate=strict --filename "$file" >/dev/null ||
      wrong "the API server refuses $file"
    grep -qF "($name)" "$root/examples/README.md" || wrong "examples/README.md does not name $file"
    ok "example $name"
  done
  render defaults --show-only templates/tests/render.yaml | kubectl apply --dry-run=server --output json --filename - |
    python3 -c '
import json, sys
maps = (item for item in json.load(sys.stdin)["items"] if item["kind"] == "ConfigMap")
print(next(maps)["data"]["group.yaml"])' |
    "$operator" render -f - >/dev/null || wrong "the operator refuses the group of helm test"
  json "$chart/Chart.yaml" | python3 -c '
import json, sys, textwrap
text = json.load(sys.stdin)["annotations"]["artifacthub.io/crdsExamples"]
print(textwrap.dedent(text.replace("-", " ", 1)))' |
    "$operator" render -f - >/dev/null || wrong "the operator refuses the example in Chart.yaml"
  ok "the groups in the chart"
}

# The allocator's setting is half of what keeps the operator below its memory; tests of it by itself set the same.
arenas() {
  render defaults --show-only templates/deployment.yaml | grep -A1 'name: MALLOC_ARENA_MAX$' | grep -q 'value: "1"$' ||
    wrong "the operator must run with MALLOC_ARENA_MAX=1"
  ok "the operator's allocator has one arena"
}

linted
versions
arenas
typos
documented
bash "$here/cluster.sh" apiserver >/dev/null
for namespace in "$system" shop mall elsewhere; do kubectl create namespace "$namespace" >/dev/null; done
kubectl label namespace "$system" pod-security.kubernetes.io/enforce=restricted >/dev/null
stub_kinds
accepted
alerts
install
rights shop "$work_of_groups$work_on_definition"
rights "$system" "$work_of_groups$work_on_definition$work_of_leader"
ok "the operator may do what it does, and reads no Secret"
limited
restricted
life
examples
