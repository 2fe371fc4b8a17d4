package main

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// ownersName is the file in which Artifact Hub reads who publishes the charts.
const ownersName = "artifacthub-repo.yml"

// The form and the tag in which Artifact Hub looks for that file beside a chart.
const (
	ownersTag    = "artifacthub.io"
	ownersConfig = "application/vnd.cncf.artifacthub.config.v1+yaml"
	ownersLayer  = "application/vnd.cncf.artifacthub.repository-metadata.layer.v1.yaml"
)

// pushOwners pushes that file to where each chart is, below a registry such as registry.example.com/team.
func pushOwners(ctx context.Context, registry string, content []byte) error {
	image, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1),
		ownersConfig), mutate.Addendum{Layer: static.NewLayer(content, ownersLayer)})
	if err != nil {
		return err
	}
	for _, chart := range chartNames {
		target, err := name.NewTag(registry + "/charts/" + chart + ":" + ownersTag)
		if err != nil {
			return err
		}
		if err := remote.Write(target, image, remote.WithContext(ctx),
			remote.WithAuthFromKeychain(authn.DefaultKeychain),
			remote.WithTransport(private{remote.DefaultTransport})); err != nil {
			return fmt.Errorf("push %s: %w", target, err)
		}
	}
	return nil
}
