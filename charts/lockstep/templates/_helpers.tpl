{{/* The name of namespaced objects. */}}
{{- define "lockstep.fullname" -}}
{{- .Values.fullnameOverride | default "lockstep-operator" | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of the cluster's objects: operators of several namespaces live side by side. */}}
{{- define "lockstep.clusterName" -}}
{{- printf "%s.%s" (include "lockstep.fullname" .) .Release.Namespace -}}
{{- end -}}

{{- define "lockstep.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "lockstep.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | required "serviceAccount.name is missing: name the service account that is there, or set serviceAccount.create" -}}
{{- end -}}
{{- end -}}

{{/* What never changes: the Deployment selects by it. */}}
{{- define "lockstep.selector" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "lockstep.labels" -}}
{{ include "lockstep.selector" . }}
{{ include "lockstep.moreLabels" . }}
{{- end -}}

{{/* The operator's selector must not find these. */}}
{{- define "lockstep.testLabels" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: test
{{ include "lockstep.moreLabels" . }}
{{- end -}}

{{- define "lockstep.moreLabels" -}}
app.kubernetes.io/part-of: lockstep
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* An image: (dict "image" VALUES "root" $). A digest goes before a tag. */}}
{{- define "lockstep.image" -}}
{{- if .image.digest -}}
{{- printf "%s@%s" .image.repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" .image.repository (.image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* What the operator does in the namespaces that it looks after. No Secrets: pods mount them by name. */}}
{{- define "lockstep.rules" -}}
- apiGroups: [lockstep.dev]
  resources: [consumergroups]
  verbs: [get, list, watch]
- apiGroups: [lockstep.dev]
  resources: [consumergroups/status]
  verbs: [get, patch]
# For blockOwnerDeletion, where the plugin OwnerReferencesPermissionEnforcement is on.
- apiGroups: [lockstep.dev]
  resources: [consumergroups/finalizers]
  verbs: [update]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch]
- apiGroups: [apps]
  resources: [replicasets]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
# Only annotations below lockstep.dev/: admissionpolicy.yaml.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, patch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{- define "lockstep.testName" -}}
{{- include "lockstep.fullname" . | trunc 47 | trimSuffix "-" -}}-test
{{- end -}}

{{/* A valid group for helm test. */}}
{{- define "lockstep.testGroup" -}}
apiVersion: lockstep.dev/v1alpha1
kind: ConsumerGroup
metadata:
  name: {{ include "lockstep.testName" . }}
  namespace: {{ .Release.Namespace }}
spec:
  source:
    rocketmq:
      nameServers: ["localhost:9876"]
      consumerGroup: lockstep-helm-test
      subscriptions:
      - topic: lockstep-helm-test
  template:
    spec:
      securityContext:
        runAsNonRoot: true
        seccompProfile:
          type: RuntimeDefault
      containers:
      - name: app
        image: {{ include "lockstep.image" (dict "image" .Values.image "root" $) | quote }}
        securityContext:
          allowPrivilegeEscalation: false
          capabilities:
            drop: [ALL]
{{- end -}}
