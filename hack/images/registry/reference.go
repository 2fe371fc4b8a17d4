// Package registry pushes an image of hack/images/archive to a registry for hack/images, without a container engine. It uses the
// HTTP API that all registries have (OCI distribution specification), and the credentials of "docker login".
package registry

import (
	"fmt"
	"net"
	"regexp"
	"strings"
)

// Reference says where an image is pushed to.
type Reference struct {
	// Host is that of the registry's API, with its port. For Docker Hub it is not the host in the image's name.
	Host string
	// Repository is the path below the host.
	Repository string
	// Tag is "latest" if the name has none.
	Tag string
}

const (
	dockerHub    = "docker.io"
	dockerHubAPI = "registry-1.docker.io"
)

var (
	repositoryPattern = regexp.MustCompile(`^[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$`)
	tagPattern        = regexp.MustCompile(`^\w[\w.-]{0,127}$`)
)

// ParseReference parses [host[:port]/]repository[:tag]. It refuses digests, because an image gets its digest by being pushed.
func ParseReference(name string) (Reference, error) {
	host, rest := splitHost(name)
	repository, tag := rest, "latest"
	if i := strings.LastIndex(rest, ":"); i >= 0 {
		repository, tag = rest[:i], rest[i+1:]
	}
	if host == dockerHub {
		host = dockerHubAPI
		if !strings.Contains(repository, "/") {
			repository = "library/" + repository
		}
	}
	if !repositoryPattern.MatchString(repository) || !tagPattern.MatchString(tag) {
		return Reference{}, fmt.Errorf("image name %q: want host/repository:tag, such as registry.example.com/team/harrier:test", name)
	}
	return Reference{Host: host, Repository: repository, Tag: tag}, nil
}

// splitHost follows Docker: the part before the first slash is a host if it contains a dot or a port, or is localhost.
func splitHost(name string) (host, rest string) {
	first, rest, found := strings.Cut(name, "/")
	if found && (strings.ContainsAny(first, ".:") || first == "localhost") {
		return first, rest
	}
	return dockerHub, name
}

// scheme is http only for this machine, as in container engines.
func (reference Reference) scheme() string {
	host := reference.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if address := net.ParseIP(host); host == "localhost" || (address != nil && address.IsLoopback()) {
		return "http"
	}
	return "https"
}

func (reference Reference) url(path string) string {
	return reference.scheme() + "://" + reference.Host + "/v2/" + reference.Repository + path
}
