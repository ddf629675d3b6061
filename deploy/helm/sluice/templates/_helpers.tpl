{{/* Name of all objects: the release, with the name of the chart unless the release has it already. */}}
{{- define "sluice.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{/* Labels that never change: selectors use them. */}}
{{- define "sluice.selector" -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "sluice.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* Text of a setting: that of the values, else the default of the chart, else none. Call with (dict "root" $ "name" …). */}}
{{- define "sluice.setting" -}}
{{- $value := get .root.Values.settings .name -}}
{{- if not (kindIs "invalid" $value) -}}
{{ toString $value }}
{{- else if and .root.Values.ingress.enabled (eq .name "SLUICE_TRUSTED_PROXIES") -}}
uniquelocal
{{- end -}}
{{- end -}}

{{/* The networks of a setting as JSON, in CIDR form: one address is a network of its own. */}}
{{- define "sluice.networks" -}}
{{- $networks := list -}}
{{- range splitList "," (include "sluice.setting" .) -}}
{{- with trim . -}}
{{- $networks = append $networks (contains "/" . | ternary . (printf "%s/%s" . (contains ":" . | ternary "128" "32"))) -}}
{{- end -}}
{{- end -}}
{{- toJson $networks -}}
{{- end -}}

{{/* Every service has a pod of its own, so all listen on one port, whatever their default is. That of /metrics follows. */}}
{{- define "sluice.port" -}}8080{{- end -}}
{{- define "sluice.metricsPort" -}}9080{{- end -}}

{{/* What the port speaks, for the readiness probe: HTTPS with a certificate of its own. */}}
{{- define "sluice.scheme" -}}
{{ empty (include "sluice.setting" (dict "root" . "name" "SLUICE_TLS_CERT")) | ternary "HTTP" "HTTPS" }}
{{- end -}}

{{/* The environment of a process, as the list of a container. Call with (dict "root" $ "variables" …). */}}
{{- define "sluice.environment" -}}
{{- $root := .root -}}
{{- range $name, $variable := .variables }}
{{- if $variable.secret }}
- name: {{ $name }}
  valueFrom:
    secretKeyRef:
      name: {{ $root.Values.secretName }}
      key: {{ $name }}
      {{- if not $variable.required }}
      optional: true
      {{- end }}
{{- else if eq $name "SLUICE_PORT" }}
- name: SLUICE_PORT
  value: {{ include "sluice.port" $root | quote }}
{{- else }}
{{- $value := include "sluice.setting" (dict "root" $root "name" $name) }}
{{- if $value }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- with $root.Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "sluice.podSecurity" -}}
runAsNonRoot: true
{{- with .Values.podSecurity.user }}
runAsUser: {{ int . }}
runAsGroup: {{ int . }}
fsGroup: {{ int . }}
{{- end }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "sluice.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* What every pod has: where it runs, and how its image is pulled. */}}
{{- define "sluice.placement" -}}
automountServiceAccountToken: false
# Kubernetes would name variables after Services: that of a release called "sluice" is SLUICE_PORT.
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* A rule of egress to an engine. Call with one of networkPolicy.engines. */}}
{{- define "sluice.egress" -}}
- ports:
    {{- range .ports }}
    - { protocol: TCP, port: {{ int . }} }
    {{- end }}
  {{- with .to }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* Rules of egress of a process. Call with (dict "root" $ "engines" (list …)). */}}
{{- define "sluice.egressRules" -}}
{{- $policy := .root.Values.networkPolicy -}}
- ports:
    {{- range $policy.dnsPorts }}
    - { protocol: UDP, port: {{ int . }} }
    - { protocol: TCP, port: {{ int . }} }
    {{- end }}
{{- range .engines }}
{{ include "sluice.egress" (get $policy.engines .) }}
{{- end }}
{{- with $policy.extraEgress }}
{{ toYaml . }}
{{- end }}
{{- end -}}
