{{- define "herdpy.fullname" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- /* Labels that never change: (list . "server") */ -}}
{{- define "herdpy.selector" -}}
{{- $top := index . 0 -}}
app.kubernetes.io/name: herdpy
app.kubernetes.io/instance: {{ $top.Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "herdpy.labels" -}}
{{- $top := index . 0 -}}
{{ include "herdpy.selector" . }}
app.kubernetes.io/version: {{ $top.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $top.Release.Service }}
{{- end }}

{{- define "herdpy.pod" -}}
{{- $top := index . 0 -}}
{{- $part := index . 1 -}}
{{- $user := index . 2 -}}
{{- $own := index . 3 -}}
automountServiceAccountToken: false
# Kubernetes' variables for services would be named like settings: HERDPY_PORT.
enableServiceLinks: false
{{- with $top.Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: {{ $user }}
  runAsGroup: {{ $user }}
  fsGroup: {{ $user }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with $own.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $own.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- if ne $top.Values.antiAffinity "none" }}
affinity:
  podAntiAffinity:
{{- if eq $top.Values.antiAffinity "hard" }}
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels: {{ include "herdpy.selector" (list $top $part) | nindent 12 }}
{{- else }}
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{ include "herdpy.selector" (list $top $part) | nindent 14 }}
{{- end }}
{{- end }}
{{- end }}

{{- define "herdpy.confined" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "herdpy.image" -}}
{{- $image := index . 0 -}}
image: {{ printf "%s:%v" $image.repository (default (index . 1) $image.tag) | quote }}
imagePullPolicy: {{ $image.pullPolicy }}
{{- end }}

{{- /* A volume for each pod: (list "name" .Values...storage) */ -}}
{{- define "herdpy.claim" -}}
{{- $storage := index . 1 -}}
- metadata:
    name: {{ index . 0 }}
  spec:
    accessModes: [ReadWriteOnce]
{{- with $storage.className }}
    storageClassName: {{ . | quote }}
{{- end }}
    resources:
      requests:
        storage: {{ $storage.size }}
{{- end }}

{{- /* "host:port,host:port" of ZooKeeper */ -}}
{{- define "herdpy.zookeeper" -}}
{{- if .Values.zookeeper.enabled -}}
{{- $name := printf "%s-zookeeper" (include "herdpy.fullname" .) -}}
{{- $hosts := list -}}
{{- range $i := until (int .Values.zookeeper.replicas) -}}
{{- $hosts = append $hosts (printf "%s-%d.%s.%s.svc.%s:2181" $name $i $name $.Release.Namespace $.Values.clusterDomain) -}}
{{- end -}}
{{- join "," $hosts -}}
{{- else -}}
{{- required "zookeeper.servers names the ensemble where zookeeper.enabled is false" .Values.zookeeper.servers -}}
{{- end -}}
{{- end }}

{{- /* conf/zookeeper.cfg with the ensemble's members */ -}}
{{- define "herdpy.zookeeper.cfg" -}}
{{ .Files.Get "files/zookeeper.cfg" }}
# A server may listen before its own name is known.
quorumListenOnAllIPs=true
{{- $name := printf "%s-zookeeper" (include "herdpy.fullname" .) }}
{{- if gt (int .Values.zookeeper.replicas) 1 }}
{{- range $i := until (int .Values.zookeeper.replicas) }}
server.{{ add1 $i }}={{ $name }}-{{ $i }}.{{ $name }}.{{ $.Release.Namespace }}.svc.{{ $.Values.clusterDomain }}:2888:3888
{{- end }}
{{- end }}
{{- end }}

{{- /* conf/bookkeeper.conf with where ZooKeeper is */ -}}
{{- define "herdpy.bookkeeper.conf" -}}
{{ .Files.Get "files/bookkeeper.conf" | replace "zookeeper:2181" (include "herdpy.zookeeper" . | replace "," ";") }}
{{- end }}

{{- define "herdpy.firstRoleSecret" -}}
{{- default (printf "%s-first-role" (include "herdpy.fullname" .)) .Values.firstRole.existingSecret -}}
{{- end }}
