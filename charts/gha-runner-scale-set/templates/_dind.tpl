{{/*
Docker in the runner pod (container mode dind).
*/}}

{{/*
"true" on Kubernetes 1.29 and later, where an init container may run on as a sidecar: it is up before the runner starts
and doesn't keep the pod from ending. Cloud providers report a minor version such as "29+". v1.20.0 is no version of a cluster:
a Helm 3 that was built without its release flags says so where it has none to ask.
*/}}
{{- define "gha-runner-scale-set.has-sidecars" -}}
{{- $major := regexFind "^[0-9]+" .Capabilities.KubeVersion.Major | int }}
{{- $minor := regexFind "^[0-9]+" .Capabilities.KubeVersion.Minor | int }}
{{- if or (gt $major 1) (ge $minor 29) (eq .Capabilities.KubeVersion.Version "v1.20.0") }}true{{ end }}
{{- end }}

{{/* Copies the runner's own Node.js to where the Docker daemon, and so a job's containers, can see it. */}}
{{- define "gha-runner-scale-set.init-dind-externals" -}}
name: init-dind-externals
image: {{ (include "gha-runner-scale-set.own-runner" . | fromJson).image | quote }}
command: ["cp"]
args: ["-r", "/home/runner/externals/.", "/home/runner/tmpDir/"]
volumeMounts:
  - name: dind-externals
    mountPath: /home/runner/tmpDir
{{- end }}

{{/* 24 probes of 5 s give the daemon the two minutes that the runner waits for it. */}}
{{- define "gha-runner-scale-set.dind" -}}
name: dind
image: {{ (.Values.containerMode | default dict).dindImage | default "docker:dind" | quote }}
args:
  - dockerd
  - --host=unix:///var/run/docker.sock
  - --group=$(DOCKER_GROUP_GID)
  {{- with include "gha-runner-scale-set.registry-mirror" . }}
  - --registry-mirror={{ . }}
  {{- end }}
env:
  - name: DOCKER_GROUP_GID
    value: "123"
securityContext:
  privileged: true
{{- if include "gha-runner-scale-set.has-sidecars" . }}
restartPolicy: Always
startupProbe:
  exec:
    command:
      - docker
      - info
  initialDelaySeconds: 0
  failureThreshold: 24
  periodSeconds: 5
{{- end }}
volumeMounts:
  - name: work
    mountPath: /home/runner/_work
  - name: dind-sock
    mountPath: /var/run
  - name: dind-externals
    mountPath: /home/runner/externals
{{- end }}
