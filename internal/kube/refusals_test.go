package kube_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/harrier-ci/harrier/internal/kube"
)

func TestWhichErrorsAreUnanswered(t *testing.T) {
	pods := corev1.Resource("pods")
	page := func(code int) error { // as client-go reports the page of a proxy
		return apierrors.NewGenericServerResponse(code, "POST", pods, "a", "<html>", 0, true)
	}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"none":                      {nil, false},
		"no connection":             {errors.New("connection refused"), true},
		"no answer in time":         {fmt.Errorf("create pod: %w", context.DeadlineExceeded), true},
		"a proxy's 502":             {page(http.StatusBadGateway), true},
		"a proxy's 503":             {page(http.StatusServiceUnavailable), true},
		"a proxy's 504":             {fmt.Errorf("create pod: %w", page(http.StatusGatewayTimeout)), true},
		"etcd is away":              {apierrors.NewServerTimeout(pods, "create", 1), true},
		"the request took too long": {apierrors.NewTimeoutError("too long", 1), true},
		"too many requests":         {apierrors.NewTooManyRequests("later", 1), true},
		"a webhook failed":          {apierrors.NewInternalError(errors.New("failed calling webhook")), false},
		"forbidden":                 {apierrors.NewForbidden(pods, "a", errors.New("no Role")), false},
		"invalid":                   {fmt.Errorf("create pod: %w", apierrors.NewBadRequest("no number")), false},
		"conflict":                  {apierrors.NewConflict(pods, "a", errors.New("changed")), false},
		"not found":                 {apierrors.NewNotFound(pods, "a"), false},
	} {
		if got := kube.IsUnanswered(test.err); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

func TestWhichErrorsMeanThatTheCacheIsBehind(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"conflict": {
			fmt.Errorf("patch: %w", apierrors.NewConflict(corev1.Resource("pods"), "a", errors.New("changed"))), true,
		},
		"already exists": {apierrors.NewAlreadyExists(corev1.Resource("pods"), "a"), true},
		"not found":      {apierrors.NewNotFound(corev1.Resource("pods"), "a"), false},
		"no answer":      {context.DeadlineExceeded, false},
	} {
		if got := kube.IsBehind(test.err); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
