package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CSIDriver is the name of the driver that AddStorage starts: the provisioner of StorageClasses and the driver of
// VolumeSnapshotClasses, of which there are none yet. Their parameters can make it slow or fail; hack/csi has them.
const CSIDriver = "folders.harrier.test"

// registrationLimit is ten times as long as the kubelet takes to find the driver.
const registrationLimit = 30 * time.Second

// AddStorage starts a CSI stack: the project's provisioner, snapshotter and snapshot controller, and a driver whose
// volumes and snapshots are folders below the one that AddStorage returns. The first node has it. The first time,
// hack/csi.sh of the tree at root builds the programs, which takes minutes.
func (c *Cluster) AddStorage(ctx context.Context, root string) (string, error) {
	programs, err := runScript(ctx, root, c.progress.target, "csi.sh", "csi-provisioner")
	if err != nil {
		return "", err
	}
	client, err := c.client()
	if err != nil {
		return "", err
	}
	dir, node := c.layout.in("csi"), c.running[0]
	return dir, c.progress.step("starting a CSI stack", func() error {
		manifests := filepath.Join(programs, "manifests")
		if _, err := run(ctx, c.program("kubectl"), "--kubeconfig="+c.Kubeconfig(), "apply", "--filename="+manifests); err != nil {
			return fmt.Errorf("create the kinds of snapshots: %w", err)
		}
		if err := c.launch(c.csi(programs, dir, node)...); err != nil {
			return err
		}
		return c.await(ctx, "the CSI driver on the node", registrationLimit, func() error {
			of, err := client.StorageV1().CSINodes().Get(ctx, node.name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(of.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == CSIDriver }) {
				return fmt.Errorf("the kubelet has not registered %s", CSIDriver)
			}
			return nil
		})
	})
}

// csi returns the components of the CSI stack. They act as the administrator; what bursts they make is no matter.
func (c *Cluster) csi(programs, dir string, n node) []component {
	socket := c.layout.in("csi.sock")
	address, kubeconfig := "--csi-address="+socket, "--kubeconfig="+c.Kubeconfig()
	burst := []string{"--kube-api-qps=200", "--kube-api-burst=400"}
	// Nobody has made the kinds of groups, for which the snapshot controller would wait for 20 s.
	snapshots := append([]string{kubeconfig, "--feature-gates=CSIVolumeGroupSnapshot=false"}, burst...)
	return []component{
		{"csi-driver", filepath.Join(programs, "folders"), []string{
			"-socket=" + socket, "-dir=" + dir, "-node=" + n.name,
			"-registration=" + n.in("kubelet", "plugins_registry", "folders.sock"),
		}},
		// Without the kind of volume attributes, which the oldest Kubernetes doesn't have.
		{"csi-provisioner", filepath.Join(programs, "csi-provisioner"), append([]string{
			address, kubeconfig, "--feature-gates=VolumeAttributesClass=false"}, burst...)},
		{"csi-snapshotter", filepath.Join(programs, "csi-snapshotter"), append([]string{address}, snapshots...)},
		{"snapshot-controller", filepath.Join(programs, "snapshot-controller"), snapshots},
	}
}
