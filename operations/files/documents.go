package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"

	yamlv2 "go.yaml.in/yaml/v2"
	"sigs.k8s.io/yaml"
)

// Document is one document of a file.
type Document struct {
	// Content is its text, YAML or JSON. Fields are the same, as JSON has them: nil if there are comments only.
	Content []byte
	Fields  map[string]any
}

// Documents returns every document of a file, in order: YAML has --- before or ... after each, and objects in JSON may
// just follow each other. An error is one of the document in whose place it comes, begins with "is", and quotes nothing
// of it: its values may be secrets.
func (i *Input) Documents() iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		for _, part := range parts(i.Content) {
			documents, err := objects(part), error(nil)
			if documents == nil {
				documents, err = [][]byte{part}, single(part)
			}
			for _, content := range documents {
				document := Document{Content: content}
				if err == nil {
					err = yaml.Unmarshal(content, &document.Fields)
				}
				if err != nil {
					err = fmt.Errorf("is not YAML: %s", unquoted(err))
				}
				if !yield(document, err) {
					return
				}
			}
		}
	}
}

// parts cuts at the lines that YAML reserves for the bounds of documents: no text of a document has such a line.
func parts(content []byte) (all [][]byte) {
	var part []byte
	end := func() {
		if len(part) > 0 {
			all = append(all, part)
		}
		part = nil
	}
	for line := range bytes.Lines(content) {
		begins, ends := bytes.HasPrefix(line, []byte("---")), bytes.HasPrefix(line, []byte("..."))
		if (!begins && !ends) || (len(line) > 3 && !bytes.ContainsAny(line[3:4], " \t\r\n")) {
			part = append(part, line...)
			continue
		}
		end()
		if rest := bytes.TrimSpace(line[3:]); len(rest) > 0 && rest[0] != '#' {
			// "--- {a: b}" begins a document in the same line
			part = append(part, line...)
		}
	}
	end()
	return all
}

// objects returns the objects of a part that is JSON, nil if it isn't.
func objects(part []byte) (all [][]byte) {
	if !bytes.HasPrefix(bytes.TrimSpace(part), []byte("{")) {
		return nil
	}
	for decoder := json.NewDecoder(bytes.NewReader(part)); ; {
		var object json.RawMessage
		switch err := decoder.Decode(&object); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			return nil
		}
		all = append(all, object)
	}
}

var errMore = errors.New("there is more after the end of the document; separate documents by lines of ---")

// single reads a part to its end. It fails if there is more than one document: whoever reads one alone wouldn't notice.
func single(part []byte) error {
	decoder := yamlv2.NewDecoder(bytes.NewReader(part))
	var document, more any
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return err
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return errMore
	}
	return nil
}

// quotation finds the place at which an error of a parser begins to quote what it has read.
var quotation = regexp.MustCompile("['\"`]|key: |number [-0-9]|map\\[[^s]")

// unquoted returns the text of an error, up to what it quotes.
func unquoted(err error) string {
	text := err.Error()
	if at := quotation.FindStringIndex(text); at != nil {
		return text[:at[0]] + "…"
	}
	return text
}
