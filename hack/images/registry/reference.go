// Package registry pushes an image of hack/images/archive to a registry, by the HTTP API that all registries share (OCI
// distribution specification), with the credentials that "docker login" keeps. There is no container engine to do it.
package registry

import (
	"fmt"
	"net"
	"regexp"
	"strings"
)

// Reference is where an image goes.
type Reference struct {
	// Host with port, of the API: for Docker Hub it is not the host of the name.
	Host string
	// Repository below the host.
	Repository string
	// Tag, "latest" if the name had none.
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

// ParseReference reads [host[:port]/]repository[:tag]. Digests are refused: what is pushed gets its digest by that.
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

// splitHost follows Docker: the first part is a host if it has a dot or a port, or is localhost.
func splitHost(name string) (host, rest string) {
	first, rest, found := strings.Cut(name, "/")
	if found && (strings.ContainsAny(first, ".:") || first == "localhost") {
		return first, rest
	}
	return dockerHub, name
}

// scheme is http for this machine only, as it is for container engines.
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
