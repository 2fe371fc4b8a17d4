package credentials

import (
	"errors"
	"fmt"
	"strings"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/addresses"
)

// MissingError says that something a Reference names, or a key in it, does not exist.
type MissingError struct {
	// Kind is Secret, ConfigMap or Azure Key Vault secret.
	Kind string
	// Namespace is empty for a vault's secret.
	Namespace, Name string
	// Key is empty if the whole object is missing. Several keys are separated by commas.
	Key string
}

// Error names the object and the next step.
func (e *MissingError) Error() string {
	object := objectName(e.Kind, e.Namespace, e.Name)
	if e.Name == "" {
		return fmt.Sprintf("no %s is named; set its name in the AutoscalingRunnerSet", e.Kind)
	}
	if e.Key == "" && e.Namespace != "" {
		return fmt.Sprintf("%s does not exist; create it in namespace %s, which is the AutoscalingRunnerSet's own: nothing is read from another one, "+
			"not even the controller's; or correct the name in the AutoscalingRunnerSet", object, e.Namespace)
	}
	if e.Key == "" {
		return fmt.Sprintf("%s does not exist; create it or correct the name in the AutoscalingRunnerSet", object)
	}
	return fmt.Sprintf("%s lacks %s; add it", object, e.Key)
}

// InvalidError says that something exists but can't be used. It never contains a value.
type InvalidError struct {
	// Kind is the object's kind, or empty if a field of the AutoscalingRunnerSet itself is wrong.
	Kind string
	// Namespace and Name are empty if Kind is.
	Namespace, Name string
	// Key is the key in the object or the path of the field. It may be empty if the object as a whole is wrong.
	Key string
	// Reason says what is wrong and how to correct it.
	Reason string
	// cause is for the manager's log only; it may be nil.
	cause error
}

// Unwrap returns what Reason doesn't tell.
func (e *InvalidError) Unwrap() error { return e.cause }

// Error names object, key, cause and next step.
func (e *InvalidError) Error() string {
	where := "the AutoscalingRunnerSet"
	if e.Kind != "" {
		where = objectName(e.Kind, e.Namespace, e.Name)
	}
	if e.Key != "" {
		where = e.Key + " in " + where
	}
	return fmt.Sprintf("%s is not usable: %s", where, e.Reason)
}

// UnsupportedError says that this version lacks a requested feature.
type UnsupportedError struct {
	// Feature is the requested feature.
	Feature string
	// Instead is what works.
	Instead string
}

// Error names the feature and what works instead.
func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("%s is not supported by this version; %s", e.Feature, e.Instead)
}

// VaultNotAllowedError says that the administrator's list of vaults has no entry for what a Reference names.
type VaultNotAllowedError struct {
	// Field is the path of the field that no entry allows, and Value what it has. Namespace is the Reference's.
	Field, Value, Namespace string
}

// Error names the field and who can change it. It doesn't quote the list, which names other namespaces.
func (e *VaultNotAllowedError) Error() string {
	return fmt.Sprintf("%s %q is not allowed for namespace %s: one entry of the controller chart's value vaults must name the vault, the namespace "+
		"and all secrets that the set reads from it; ask the cluster's administrator, who decides by vaults", e.Field, e.Value, e.Namespace)
}

// Reasons are all that Reason returns for a user's error.
var Reasons = []string{v1alpha1.ReasonCredentialsMissing, v1alpha1.ReasonCredentialsInvalid, v1alpha1.ReasonVaultUnsupported,
	v1alpha1.ReasonVaultNotAllowed, v1alpha1.ReasonAddressNotAllowed}

// IsUserError reports whether the credentials themselves are wrong, or an address beside them, which only a user can fix, rather than
// the attempt to read them.
func IsUserError(err error) bool { return Reason(err) != "" }

// IsVaultNotAllowed reports whether the administrator's list of vaults refuses a Reference. Then nothing that was read for it before may
// be used any longer.
func IsVaultNotAllowed(err error) bool {
	_, refused := errors.AsType[*VaultNotAllowedError](err)
	return refused
}

// Reason returns the reason that conditions of every kind and the doctor's findings give for a user's error, and "" for any
// other error.
func Reason(err error) string {
	if IsVaultNotAllowed(err) {
		return v1alpha1.ReasonVaultNotAllowed
	}
	if _, missing := errors.AsType[*MissingError](err); missing {
		return v1alpha1.ReasonCredentialsMissing
	}
	if _, unsupported := errors.AsType[*UnsupportedError](err); unsupported {
		return v1alpha1.ReasonVaultUnsupported
	}
	if _, invalid := errors.AsType[*InvalidError](err); invalid {
		return v1alpha1.ReasonCredentialsInvalid
	}
	if _, refused := errors.AsType[*addresses.NotAllowedError](err); refused {
		return v1alpha1.ReasonAddressNotAllowed
	}
	return ""
}

func objectName(kind, namespace, name string) string {
	return kind + " " + strings.TrimPrefix(namespace+"/"+name, "/")
}
