package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// pushLimit bounds the upload of one image. 80 MB at 1 Mbit/s take 640 s.
	pushLimit = 20 * time.Minute
	// reportInterval is the time between two lines about an upload.
	reportInterval = 5 * time.Second
)

func pushAll(ctx context.Context, image string, architectures []string) error {
	target, err := name.NewTag(image)
	if err != nil {
		return fmt.Errorf("image name %q: want host/repository:tag, such as registry.example.com/team/harrier:test: %w",
			image, err)
	}
	for _, each := range shipped {
		index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
		for _, architecture := range architectures {
			found, err := keep(ctx, recipes[each.recipe], architecture, []string{localName + each.suffix})
			if err != nil {
				return err
			}
			image, err := found.image()
			if err != nil {
				return fmt.Errorf("read image %s: %w", each.recipe, err)
			}
			index = mutate.AppendManifests(index, mutate.IndexAddendum{
				Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}},
			})
		}
		destination := target.Tag(target.TagStr() + each.suffix)
		if err := push(ctx, index, destination); err != nil {
			return fmt.Errorf("push %s to %s: %w", each.recipe, destination.RegistryStr(), err)
		}
		digest, err := index.Digest()
		if err != nil {
			return err
		}
		fmt.Printf("%s@%s\n", destination.Name(), digest)
	}
	return nil
}

// push uploads what the registry does not have yet, and reports its progress.
func push(ctx context.Context, index v1.ImageIndex, destination name.Tag) error {
	ctx, cancel := context.WithTimeout(ctx, pushLimit)
	defer cancel()
	updates := make(chan v1.Update, 100)
	done := make(chan error, 1)
	go func() {
		done <- remote.WriteIndex(destination, index, remote.WithContext(ctx),
			remote.WithAuthFromKeychain(authn.DefaultKeychain),
			remote.WithTransport(private{remote.DefaultTransport}), remote.WithProgress(updates),
			remote.WithUserAgent("harrier"))
	}()
	reported := time.Now()
	for update := range updates { // closed when the upload has ended
		if update.Error == nil && time.Since(reported) >= reportInterval {
			reported = time.Now()
			const megabyte = 1e6
			fmt.Fprintf(os.Stderr, "%s: %.0f of %.0f MB uploaded\n", destination, float64(update.Complete)/megabyte,
				float64(update.Total)/megabyte)
		}
	}
	err := <-done
	if refused, ok := errors.AsType[*transport.Error](err); ok &&
		(refused.StatusCode == http.StatusUnauthorized || refused.StatusCode == http.StatusForbidden) {
		return fmt.Errorf("%w; log in as a user who may push there: docker login %s writes the file that is read here",
			err,
			destination.RegistryStr())
	}
	return err
}

// private refuses to speak to another machine without TLS: the library would try that for private addresses.
type private struct{ http.RoundTripper }

func (p private) RoundTrip(request *http.Request) (*http.Response, error) {
	host := request.URL.Hostname()
	if address := net.ParseIP(host); request.URL.Scheme != "https" && host != "localhost" &&
		(address == nil || !address.IsLoopback()) {
		return nil, fmt.Errorf("%s: registries on other machines need TLS", request.URL.Redacted())
	}
	return p.RoundTripper.RoundTrip(request)
}
