package convert_test

// examples are the files in testdata: what their values say under some keys, and the reasons for which something has to
// be done by hand.
var examples = []struct{ file, set, values, problems string }{
	{"repository", "one-repository", `
githubConfigUrl: https://github.com/acme/widgets
githubConfigSecret: github
runnerScaleSetName: one-repository
minRunners: 1
maxRunners: 1
containerMode: {type: dind}
template: {spec: {containers: [{name: runner, image: "ghcr.io/actions/actions-runner:latest", command: [/home/runner/run.sh]}]}}
`, ""},
	{"organization", "whole-organization", `{githubConfigUrl: "https://github.com/acme", minRunners: 2, maxRunners: 2, runnerGroup: null, scaleSetLabels: null}`, ""},
	{"enterprise", "whole-enterprise", `githubConfigUrl: https://github.com/enterprises/acme-corp`, ""},
	{"labels", "labelled", `scaleSetLabels: [Linux, X64, large]`, ""},
	{"group", "grouped", `{githubConfigUrl: "https://github.com/CHANGE-ME", runnerGroup: Builders}`, "NoAddress"},
	{"multitenancy", "runners", `{githubConfigUrl: "https://github.com/acme", githubConfigSecret: acme-app}`, "NoTarget"},
	{"busy-factors", "busy", `{minRunners: 1, maxRunners: 5, headroom: {percent: 34}, scaleDownDelay: 300s}`, ""},
	{"busy-then-queue", "combined", `{minRunners: 0, maxRunners: 7, headroom: {percent: 34}}`, ""},
	{"webhook", "webhook", `{minRunners: 1, maxRunners: 10}`, ""},
	{"schedules", "office", `
minRunners: 1
maxRunners: 120
schedules:
- {name: override-1, schedule: "0 0 1 6 *", duration: 48h0m0s, timeZone: Etc/GMT-9, minRunners: 100}
- {name: override-2, schedule: "0 0 * * 6", duration: 48h0m0s, timeZone: Etc/GMT-9, minRunners: 0}
- {name: override-3, schedule: "30 20 * * *", duration: 9h30m0s, timeZone: Etc/GMT-2, minRunners: 0}
`, ""},
	{"runner-with-hooks", "hooks", `
minRunners: 1
maxRunners: 1
containerMode:
  type: kubernetes
  kubernetesModeWorkVolumeClaim: {storageClassName: fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Gi}}}
template:
  spec:
    serviceAccountName: job-starter
    securityContext: {fsGroup: 1001}
    containers: [{name: runner, image: "ghcr.io/actions/actions-runner:latest", command: [/home/runner/run.sh]}]
`, ""},
	{"docker-in-runner", "docker-in-runner", `
containerMode: {type: dind}
template:
  spec:
    containers: [{name: runner, image: "ghcr.io/actions/actions-runner:latest", command: [/home/runner/run.sh], resources: {requests: {cpu: 2}}}]
    initContainers:
      - name: dind
        args: [--mtu=1450, --default-network-opt=bridge=com.docker.network.driver.mtu=1450, "--default-address-pool=base=172.17.0.0/12,size=24"]
        volumeMounts: [{name: layers, mountPath: /var/lib/docker}]
    volumes: [{name: layers, emptyDir: {}}]
`, ""},
	{"docker-without-root", "rootless", `
containerMode: {type: dind}
template:
  spec:
    securityContext: {fsGroup: 1001}
    containers: [{name: runner, image: "ghcr.io/actions/actions-runner:latest", command: [/home/runner/run.sh]}]
    initContainers: [{name: dind, volumeMounts: [{name: daemon-config-volume, mountPath: /etc/docker/daemon.json, subPath: daemon.json}]}]
    volumes: [{name: daemon-config-volume, configMap: {name: daemon-cm, items: [{key: daemon.json, path: daemon.json}]}}]
`, ""},
	{"entrypoint", "switches", `
containerMode: null
template:
  spec:
    containers:
      - name: runner
        image: ghcr.io/actions/actions-runner:latest
        command: [/home/runner/run.sh]
        env: [{name: RUNNER_WAIT_FOR_DOCKER_IN_SECONDS, value: "120"}, {name: NPM_CONFIG_REGISTRY, value: "https://npm.example.com"}]
`, ""},
	{"ram-disk", "ram-disk", `
template:
  spec:
    containers:
      - {name: runner, image: "ghcr.io/actions/actions-runner:latest", command: [/home/runner/run.sh], volumeMounts: [{mountPath: /tmp, name: tmp}]}
    initContainers: [{name: dind, volumeMounts: [{mountPath: /var/lib/docker, name: docker}]}]
    volumes: [{name: docker, emptyDir: {medium: Memory}}, {name: work, emptyDir: {medium: Memory}}, {name: tmp, emptyDir: {medium: Memory}}]
`, ""},
	{"local-disk", "local-disk", `
template:
  spec:
    containers:
      - name: runner
        image: ghcr.io/actions/actions-runner:latest
        command: [/home/runner/run.sh]
        env: [{name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        volumeMounts: [{mountPath: /home/runner/_work, name: work, subPathExpr: $(POD_NAME)-work}, {mountPath: /tmp, name: tmp, subPathExpr: $(POD_NAME)-tmp}]
    initContainers:
      - name: dind
        env: [{name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        volumeMounts:
          - {mountPath: /var/lib/docker, name: docker, subPathExpr: $(POD_NAME)-docker}
          - {mountPath: /home/runner/_work, name: work, subPathExpr: $(POD_NAME)-work}
    volumes: [{name: docker, hostPath: {path: /mnt/disks/ssd0}}, {name: work, hostPath: {path: /mnt/disks/ssd0}}, {name: tmp, hostPath: {path: /mnt/disks/ssd0}}]
`, ""},
	{"set", "plain-set", `
minRunners: 1
template: {metadata: {labels: {app: plain-set}}, spec: {containers: [{name: runner, image: "ghcr.io/actions/actions-runner:latest", command: [/home/runner/run.sh]}]}}
`, ""},
	{"set-complex", "complex-set", `
template:
  spec:
    securityContext: {seLinuxOptions: {level: s0, role: system_r, type: super_t, user: system_u}}
    containers:
      - name: runner
        image: ghcr.io/actions/actions-runner:latest
        command: [/home/runner/run.sh]
        resources: {limits: {cpu: "4.0", memory: 8Gi}, requests: {cpu: "2.0", memory: 4Gi}}
    initContainers:
      - name: dind
        resources: {limits: {cpu: "4.0", memory: 8Gi}}
        securityContext: {privileged: false, seLinuxOptions: {level: s0, role: system_r, type: super_t, user: system_u}}
`, ""},
	{"set-caches", "caching-set", `
minRunners: 0
maxRunners: 10
scaleSetLabels: [cached]
template:
  spec:
    containers:
      - name: runner
        image: ghcr.io/actions/actions-runner:latest
        command: [/home/runner/run.sh]
        env: [{name: GOMODCACHE, value: /home/runner/.cache/go-mod}]
        volumeMounts: [{name: cache, mountPath: /home/runner/.cache}]
    initContainers: [{name: dind, volumeMounts: [{name: var-lib-docker, mountPath: /var/lib/docker}]}]
volumeClaimTemplates:
  - {metadata: {name: var-lib-docker}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Mi}}, storageClassName: var-lib-docker}}
  - {metadata: {name: cache, labels: {kind: cache}}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Mi}}, storageClassName: cache}}
`, ""},
	{"set-work", "work-set", `
template:
  spec:
    containers:
      - {name: runner, image: "ghcr.io/actions/actions-runner:latest", command: [/home/runner/run.sh], volumeMounts: [{mountPath: /home/runner/_work, name: work}]}
    initContainers: [{name: dind, volumeMounts: [{mountPath: /home/runner/_work, name: work}]}]
    volumes:
      - name: work
        ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], storageClassName: runner-work-dir, resources: {requests: {storage: 10Gi}}}}}
`, ""},
	{"windows", "windows-runners", `
containerMode: null
scaleSetLabels: [windows, X64]
template:
  spec:
    nodeSelector: {kubernetes.io/os: windows, kubernetes.io/arch: amd64}
    containers: [{name: runner, image: "registry.example.com/runner:ltsc2022", command: [cmd.exe, /c, 'C:\actions-runner\run.cmd']}]
`, "ImageToRebuild"},
	{"account", "account", `
template:
  spec:
    serviceAccountName: cloud-role
    securityContext: {fsGroup: 1000}
    containers: [{name: runner, image: "ghcr.io/actions/actions-runner:latest", command: [/home/runner/run.sh]}]
`, ""},
	{"misplaced", "custom-runner", `githubConfigUrl: https://github.com/CHANGE-ME`, "NoAddress UnknownField"},
	{"everything", "everything", `
githubConfigUrl: https://github.com/acme/widgets
minRunners: 2
maxRunners: 2
containerMode: {type: dind}
template:
  metadata:
    annotations: {cluster-autoscaler.kubernetes.io/safe-to-evict: "true"}
    labels: {runner-deployment-name: everything}
  spec:
    priorityClassName: high
    nodeSelector: {node-role.kubernetes.io/test: ""}
    runtimeClassName: runc
    securityContext: {seLinuxOptions: {level: s0, role: system_r, type: super_t, user: system_u}}
    tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 10}]
    topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {runner-deployment-name: everything}}}
    containers:
      - name: runner
        image: custom-image/actions-runner:latest
        imagePullPolicy: Always
        command: [/home/runner/run.sh]
        resources: {limits: {cpu: "4.0", memory: 8Gi}, requests: {cpu: "2.0", memory: 4Gi}}
        volumeMounts: [{name: repo, mountPath: /home/runner/_work/repo}]
      - {name: mysql, image: "mysql:5.7", env: [{name: MYSQL_ROOT_PASSWORD, value: sidecar-password}], securityContext: {runAsUser: 0}}
    initContainers:
      - name: dind
        args: [--mtu=1500, --default-network-opt=bridge=com.docker.network.driver.mtu=1500, "--registry-mirror=https://mirror.example.com/"]
        volumeMounts: [{name: repo, mountPath: /home/runner/_work/repo}]
    volumes:
      - {name: docker-extra, hostPath: {path: /mnt/docker-extra, type: DirectoryOrCreate}}
      - {name: repo, hostPath: {path: /mnt/repo, type: DirectoryOrCreate}}
      - {name: work, emptyDir: {sizeLimit: 4Gi}}
`, "ImageToRebuild NoCounterpart"},
	{"several", "twins", `githubConfigUrl: https://github.com/acme`, ""},
	{"several", "twins-b", `githubConfigUrl: https://github.com/other`, ""},
	{"several", "twins-a", `{runnerScaleSetName: twins-a, githubConfigUrl: "https://github.com/acme"}`, ""},
}
