{{/*
The token of a pod's account, as Kubernetes itself mounts it. Our accounts and pods say automountServiceAccountToken: false, which common
policies ask of all, and which others set where nothing is said; so the container that needs the token mounts it.
*/}}
{{- define "gha-runner-scale-set-controller.token-volume" -}}
- name: service-account-token
  projected:
    sources:
      - serviceAccountToken:
          path: token
          expirationSeconds: 3600
      - configMap:
          name: kube-root-ca.crt
          items:
            - key: ca.crt
              path: ca.crt
      - downwardAPI:
          items:
            - path: namespace
              fieldRef:
                fieldPath: metadata.namespace
{{- end }}

{{- define "gha-runner-scale-set-controller.token-mount" -}}
- name: service-account-token
  mountPath: /var/run/secrets/kubernetes.io/serviceaccount
  readOnly: true
{{- end }}
