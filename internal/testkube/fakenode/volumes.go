package fakenode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/harrier-ci/harrier/internal/kube/informer"
	"github.com/harrier-ci/harrier/internal/testkube/identity"
)

// rootCertificates is the ConfigMap that a controller manager creates in every namespace. The node knows its content,
// so pods run without a controller manager as well.
const rootCertificates = "kube-root-ca.crt"

// mountVolumes creates the pod's volumes and its ServiceAccount's kubeconfig. Secrets and ConfigMaps are followed until
// the pod is gone. It waits for those that do not exist yet and fails if ctx ends first.
func (p *player) mountVolumes(ctx context.Context) error {
	p.mounting.Lock()
	defer p.mounting.Unlock()
	if p.mounted {
		return nil
	}
	for _, volume := range p.pod.Spec.Volumes {
		if p.filled[volume.Name] {
			continue // by an earlier attempt, which failed later
		}
		directory := p.volumeDirectory(volume.Name)
		if err := os.MkdirAll(directory, 0o700); err != nil {
			return fmt.Errorf("make volume %s: %w", volume.Name, err)
		}
		if err := p.fill(ctx, directory, volume.VolumeSource); err != nil {
			return fmt.Errorf("mount volume %s: %w", volume.Name, err)
		}
		p.filled[volume.Name] = true
	}
	config, err := identity.ServiceAccount(ctx, p.node.config, p.pod.Namespace, p.pod.Spec.ServiceAccountName)
	if err != nil {
		return err
	}
	if err := identity.WriteKubeconfig(p.kubeconfig(), config, p.pod.Namespace); err != nil {
		return err
	}
	p.mounted = true
	return nil
}

func (p *player) volumeDirectory(name string) string {
	return filepath.Join(p.directory, "volumes", name)
}

func (p *player) kubeconfig() string { return filepath.Join(p.directory, "kubeconfig") }

// fill writes a volume's content. Volumes that get nothing from the API server (emptyDir, claims) are empty
// directories.
func (p *player) fill(ctx context.Context, directory string, source corev1.VolumeSource) error {
	switch {
	case source.Secret != nil:
		return p.follow(ctx, "secrets", &corev1.Secret{}, source.Secret.SecretName, isTrue(source.Secret.Optional),
			func(object any) error {
				return writeAtomically(directory, selected(object.(*corev1.Secret).Data, source.Secret.Items))
			})
	case source.ConfigMap != nil:
		return p.follow(ctx, "configmaps", &corev1.ConfigMap{}, source.ConfigMap.Name,
			isTrue(source.ConfigMap.Optional),
			func(object any) error {
				return writeAtomically(directory, selected(content(object.(*corev1.ConfigMap)), source.ConfigMap.Items))
			})
	case source.Projected != nil:
		return p.project(ctx, directory, source.Projected.Sources)
	default:
		return nil
	}
}

// follow calls apply with the named object, now and whenever it changes. It returns after the first call, or, for an
// optional object, as soon as it is known whether the object exists. After an error it follows no more.
func (p *player) follow(
	ctx context.Context, resource string, kind runtime.Object, name string, optional bool, apply func(any) error,
) error {
	var once sync.Once
	first := make(chan error, 1)
	handle := func(object any) {
		err := apply(object)
		once.Do(func() { first <- err })
	}
	// A watch of this one object, not of its kind, because a node may read only what its pods refer to.
	source := cache.NewListWatchFromClient(p.node.clientset.CoreV1().RESTClient(), resource, p.pod.Namespace,
		fields.OneTermEqualSelector("metadata.name", name))
	_, follower := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: informer.Persistent(source, p.node.options.Clock), // for the same reason as with pods
		ObjectType:    kind,
		Handler: cache.ResourceEventHandlerFuncs{AddFunc: handle, UpdateFunc: func(_, object any) {
			handle(object)
		}},
	})
	following, stop := context.WithCancel(p.present)
	p.node.playing.Go(func() {
		defer stop()
		follower.RunWithContext(following)
	})
	if optional && cache.WaitForCacheSync(ctx.Done(), follower.HasSynced) {
		return nil
	}
	select {
	case err := <-first:
		if err != nil {
			stop()
		}
		return err
	case <-ctx.Done():
		stop()
		return fmt.Errorf("%s %q not found", resource, name)
	}
}

// project writes a projected volume, such as that of a ServiceAccount token. It does not follow later changes.
func (p *player) project(ctx context.Context, directory string, sources []corev1.VolumeProjection) error {
	files := map[string][]byte{}
	for _, source := range sources {
		part, err := p.projection(ctx, source)
		if err != nil {
			return err
		}
		maps.Copy(files, part)
	}
	return writeAtomically(directory, files)
}

func (p *player) projection(ctx context.Context, source corev1.VolumeProjection) (map[string][]byte, error) {
	switch {
	case source.ServiceAccountToken != nil:
		config, err := identity.ServiceAccount(ctx, p.node.config, p.pod.Namespace, p.pod.Spec.ServiceAccountName)
		if err != nil {
			return nil, err
		}
		return map[string][]byte{source.ServiceAccountToken.Path: []byte(config.BearerToken)}, nil
	case source.ConfigMap != nil && source.ConfigMap.Name == rootCertificates:
		return selected(map[string][]byte{"ca.crt": p.node.config.CAData}, source.ConfigMap.Items), nil
	case source.ConfigMap != nil:
		values, err := p.configMap(ctx, source.ConfigMap.Name, source.ConfigMap.Optional)
		return selected(bytesOf(values), source.ConfigMap.Items), err
	case source.Secret != nil:
		values, err := p.secret(ctx, source.Secret.Name, source.Secret.Optional)
		return selected(bytesOf(values), source.Secret.Items), err
	case source.DownwardAPI != nil:
		return p.downward(source.DownwardAPI.Items), nil
	default:
		return nil, errors.New("unknown kind of projection")
	}
}

// downward resolves a downward API volume. Resource fields are left out, because this node limits nothing.
func (p *player) downward(items []corev1.DownwardAPIVolumeFile) map[string][]byte {
	files := map[string][]byte{}
	for _, item := range items {
		if item.FieldRef != nil {
			value, _ := p.field(item.FieldRef.FieldPath)
			files[item.Path] = []byte(value)
		}
	}
	return files
}

// selected renames keys to the paths of items. Without items, every key is a file.
func selected(content map[string][]byte, items []corev1.KeyToPath) map[string][]byte {
	if len(items) == 0 {
		return content
	}
	files := map[string][]byte{}
	for _, item := range items {
		if value, found := content[item.Key]; found {
			files[item.Path] = value
		}
	}
	return files
}

// content joins the text and binary data of a ConfigMap.
func content(configMap *corev1.ConfigMap) map[string][]byte {
	files := bytesOf(configMap.Data)
	maps.Copy(files, configMap.BinaryData)
	return files
}

func bytesOf(values map[string]string) map[string][]byte {
	converted := make(map[string][]byte, len(values))
	for key, value := range values {
		converted[key] = []byte(value)
	}
	return converted
}
