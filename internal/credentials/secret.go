package credentials

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/harrier-ci/harrier/github/actions"
)

// Keys of a credential Secret, and of the JSON that a vault has instead.
const (
	KeyToken             = "github_token"
	KeyAppID             = "github_app_id"
	KeyAppInstallationID = "github_app_installation_id"
	KeyAppPrivateKey     = "github_app_private_key"
)

// credentials reads the credential Secret.
func (r reader) credentials(ctx context.Context, reference Reference) (actions.Credentials, error) {
	data, err := r.secret(ctx, reference.Namespace, reference.GitHubConfigSecret)
	if err != nil {
		return actions.Credentials{}, err
	}
	fields := credentialFields{kind: kindSecret, namespace: reference.Namespace, name: reference.GitHubConfigSecret,
		values: map[string]string{}}
	for key, value := range data {
		fields.values[key] = string(value)
	}
	return fields.parse()
}

// credentialFields are the keys and values of a credential Secret, and where they came from.
type credentialFields struct {
	kind, namespace, name string
	values                map[string]string
}

// parse accepts exactly one kind of credentials: a token, or an App with all three fields. Empty values count as absent, because
// templates render them for values that are not set.
func (f credentialFields) parse() (actions.Credentials, error) {
	token := f.value(KeyToken)
	appKeys := []string{KeyAppID, KeyAppInstallationID, KeyAppPrivateKey}
	missing := slices.DeleteFunc(slices.Clone(appKeys), func(key string) bool { return f.value(key) != "" })
	switch {
	case token != "" && len(missing) < len(appKeys):
		return actions.Credentials{}, f.invalid("", "it holds both "+KeyToken+" and github_app_* keys; keep one of the two")
	case token != "":
		return f.validated(actions.Credentials{Token: token})
	case len(missing) == len(appKeys):
		return actions.Credentials{}, f.missing(KeyToken + ", or " + strings.Join(appKeys, ", "))
	case len(missing) > 0:
		return actions.Credentials{}, f.missing(strings.Join(missing, ", "))
	}
	installation, err := strconv.ParseInt(f.value(KeyAppInstallationID), 10, 64)
	if err != nil || installation <= 0 {
		return actions.Credentials{}, f.invalid(KeyAppInstallationID,
			"it is not a positive whole number; take it from the end of the installation's URL on GitHub")
	}
	return f.validated(actions.Credentials{App: &actions.AppCredentials{
		ID: f.value(KeyAppID), InstallationID: installation, PrivateKey: f.value(KeyAppPrivateKey),
	}})
}

// validated refuses credentials that can never work, such as an invalid private key, before GitHub is asked.
func (f credentialFields) validated(credentials actions.Credentials) (actions.Credentials, error) {
	if err := credentials.Validate(); err != nil {
		return actions.Credentials{}, f.invalid("", err.Error())
	}
	return credentials, nil
}

// value returns a field without the white space that files and editors leave behind.
func (f credentialFields) value(key string) string { return strings.TrimSpace(f.values[key]) }

func (f credentialFields) missing(keys string) error {
	return &MissingError{Kind: f.kind, Namespace: f.namespace, Name: f.name, Key: keys}
}

func (f credentialFields) invalid(key, reason string) error {
	return &InvalidError{Kind: f.kind, Namespace: f.namespace, Name: f.name, Key: key, Reason: reason}
}
