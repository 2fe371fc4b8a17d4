package validation

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/operations/files"
)

const classKind = "StorageClass"

var errNoClasses = errors.New("is no list of StorageClasses; make it with kubectl get storageclasses -o yaml")

// readClasses reads the StorageClasses in a file: a list, which is empty in a cluster without any, or objects.
func readClasses(path string) ([]metav1.PartialObjectMetadata, error) {
	inputs, err := files.ReadInputs([]string{path})
	if err != nil {
		return nil, err
	}
	classes, listed := []metav1.PartialObjectMetadata{}, false
	for document, err := range inputs[0].Documents() {
		if err != nil {
			return nil, fmt.Errorf("%s %w", path, err)
		}
		read := struct {
			Kind              string
			Items             []metav1.PartialObjectMetadata
			metav1.ObjectMeta `json:"metadata"`
		}{}
		if err := yaml.Unmarshal(document.Content, &read); err != nil {
			return nil, fmt.Errorf("%s %w", path, errNoClasses)
		}
		switch read.Kind {
		case classKind:
			read.Items = []metav1.PartialObjectMetadata{{TypeMeta: metav1.TypeMeta{Kind: classKind}, ObjectMeta: read.ObjectMeta}}
		case listSuffix, classKind + listSuffix:
		default:
			return nil, fmt.Errorf("%s %w", path, errNoClasses)
		}
		listed = true
		for i := range read.Items {
			if kind := read.Items[i].Kind; kind != classKind && (kind != "" || read.Kind == listSuffix) {
				return nil, fmt.Errorf("%s %w", path, errNoClasses)
			}
		}
		classes = append(classes, read.Items...)
	}
	if !listed {
		return nil, fmt.Errorf("%s %w", path, errNoClasses)
	}
	return classes, nil
}
