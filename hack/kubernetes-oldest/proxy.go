package main

import (
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
)

// kube-proxy has the mode nftables, which the clusters here use, behind a feature gate until 1.31. The newest version
// may not know the gate any more, so that it can't be in the file that configures both.
func init() {
	utilruntime.Must(utilfeature.DefaultMutableFeatureGate.Set(string(features.NFTablesProxyMode) + "=true"))
}
