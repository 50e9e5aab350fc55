{{/*
Alerts. Those of the operator speak of a group by its conditions and by what its pods report; those of the sidecars see
single queues, and go on when no operator runs.
*/}}
{{- define "lockstep.alerts" -}}
{{- $more := .Values.metrics.prometheusRule.alertLabels -}}
groups:
- name: lockstep-groups
  rules:
  - alert: LockstepGroupBlocked
    expr: max by (namespace, name) (lockstep_consumergroup_condition{condition="Blocked", status="True"}) == 1
    for: 5m
    labels:
      {{- merge (dict "severity" "critical") $more | toYaml | nindent 6 }}
    annotations:
      summary: 'Group {{ "{{ $labels.namespace }}/{{ $labels.name }}" }} is blocked'
      description: 'A message holds up everything behind it. The condition names queue, message and error: kubectl --namespace {{ "{{ $labels.namespace }}" }} describe consumergroup {{ "{{ $labels.name }}" }}. Repair the application, or pass the message with lockstep-sidecar skip or dead-letter.'
  - alert: LockstepGroupOldestMessage
    expr: max by (namespace, name) (lockstep_consumergroup_oldest_age_seconds) > {{ .Values.metrics.prometheusRule.oldestAgeSeconds }}
    for: 5m
    labels:
      {{- merge (dict "severity" "warning") $more | toYaml | nindent 6 }}
    annotations:
      summary: 'Messages of group {{ "{{ $labels.namespace }}/{{ $labels.name }}" }} wait for {{ "{{ $value | humanizeDuration }}" }}'
      description: 'The application is slower than its messages come, or something holds them up. Look at the conditions; then at more replicas, up to the number of queues, and at delivery.maxInFlight.'
  - alert: LockstepGroupApplicationUnhealthy
    expr: max by (namespace, name) (lockstep_consumergroup_condition{condition="ApplicationHealthy", status="False"}) == 1
    for: 5m
    labels:
      {{- merge (dict "severity" "critical") $more | toYaml | nindent 6 }}
    annotations:
      summary: 'The application of group {{ "{{ $labels.namespace }}/{{ $labels.name }}" }} takes no messages'
      description: 'Its health check fails, or it answers as if path or credentials were wrong. The reason of the condition ApplicationHealthy says which. Nothing is lost meanwhile.'
  - alert: LockstepGroupSourceDisconnected
    expr: max by (namespace, name) (lockstep_consumergroup_condition{condition="SourceConnected", status="False"}) == 1
    for: 5m
    labels:
      {{- merge (dict "severity" "critical") $more | toYaml | nindent 6 }}
    annotations:
      summary: 'Group {{ "{{ $labels.namespace }}/{{ $labels.name }}" }} does not reach its broker'
      description: 'The condition SourceConnected says why. It connects by itself when the broker is back.'
  - alert: LockstepGroupQueuesWithoutOwner
    expr: max by (namespace, name) (lockstep_consumergroup_condition{condition="QueuesOwned", status="False"}) == 1
    for: 5m
    labels:
      {{- merge (dict "severity" "warning") $more | toYaml | nindent 6 }}
    annotations:
      summary: 'Queues of group {{ "{{ $labels.namespace }}/{{ $labels.name }}" }} have no owner'
      description: 'Nobody reads them. The condition QueuesOwned says how many. Look whether another member of the broker''s group, outside of Lockstep, holds them, and whether the pods are ready.'
  - alert: LockstepGroupStalled
    expr: max by (namespace, name) (lockstep_consumergroup_condition{condition="Stalled", status="True"}) == 1
    for: 5m
    labels:
      {{- merge (dict "severity" "warning") $more | toYaml | nindent 6 }}
    annotations:
      summary: 'Group {{ "{{ $labels.namespace }}/{{ $labels.name }}" }} waits for a change of its manifest'
      description: 'The condition Stalled names the field and the remedy. Pods of the last good manifest go on.'
- name: lockstep-sidecars
  rules:
  - alert: LockstepQueueBlocked
    expr: max by (namespace, consumergroup, queue) (lockstep_blocked_lanes) > 0
    for: 10m
    labels:
      {{- merge (dict "severity" "critical") $more | toYaml | nindent 6 }}
    annotations:
      summary: 'Queue {{ "{{ $labels.queue }}" }} of group {{ "{{ $labels.namespace }}/{{ $labels.consumergroup }}" }} is blocked'
      description: 'A message holds up everything behind it. GET /status of the pod''s port lockstep-admin names it.'
  - alert: LockstepMessagesLostByRetention
    {{- /* A counter of a queue is there from its first count on, which increase() does not see. */}}
    expr: |-
      sum by (namespace, consumergroup, queue) (increase(lockstep_lost_messages_total[15m])) > 0
      or sum by (namespace, consumergroup, queue) (lockstep_lost_messages_total unless lockstep_lost_messages_total offset 15m) > 0
    labels:
      {{- merge (dict "severity" "critical") $more | toYaml | nindent 6 }}
    annotations:
      summary: 'The broker dropped unread messages of queue {{ "{{ $labels.queue }}" }}, group {{ "{{ $labels.namespace }}/{{ $labels.consumergroup }}" }}'
      description: 'Retention overtook the group. Nothing brings them back; keep messages longer, or add replicas before the backlog is that old.'
  - alert: LockstepDeadLetters
    expr: |-
      sum by (namespace, consumergroup) (increase(lockstep_dead_letters_total[15m])) > 0
      or sum by (namespace, consumergroup) (lockstep_dead_letters_total unless lockstep_dead_letters_total offset 15m) > 0
    labels:
      {{- merge (dict "severity" "warning") $more | toYaml | nindent 6 }}
    annotations:
      summary: 'Messages of group {{ "{{ $labels.namespace }}/{{ $labels.consumergroup }}" }} were given up'
      description: 'They lie in the dead-letter queue. The sidecar''s log names each with its last error.'
- name: lockstep-operator
  rules:
  - alert: LockstepOperatorWithoutLeader
    expr: (sum(lockstep_operator_leader) or vector(0)) < 1
    for: 5m
    labels:
      {{- merge (dict "severity" "warning") $more | toYaml | nindent 6 }}
    annotations:
      summary: 'No operator of Lockstep leads'
      description: 'Messages flow on, but nobody follows changed manifests or writes conditions. Look at the logs of the operator in namespace {{ .Release.Namespace }}.'
  - alert: LockstepDefinitionOutdated
    expr: max(lockstep_operator_crd_outdated) == 1
    for: 5m
    labels:
      {{- merge (dict "severity" "warning") $more | toYaml | nindent 6 }}
    annotations:
      summary: 'The definition of ConsumerGroup is older than the operator'
      description: 'It is missing, or the API server drops or refuses fields that manifests may hold. The operator''s log names them. Run helm upgrade with crds.enabled, or: lockstep-operator crd | kubectl apply --server-side -f -'
{{- end -}}
