// Package files reads the files that a command line names, up to a size, and the documents in them.
package files

import (
	"fmt"
	"io"
	"os"
)

// MaxInput limits the size of a file: a thousand scale sets of a cluster have some 20 MB.
const MaxInput = 64 << 20

// Input is a file, with its name for messages.
type Input struct {
	Name    string
	Content []byte
}

// ReadInputs reads files of the caller's, - for standard input, up to MaxInput each.
func ReadInputs(paths []string) (inputs []Input, err error) {
	for _, path := range paths {
		input := Input{Name: path}
		if path == "-" {
			input.Name = "standard input"
			input.Content, err = readAll(os.Stdin, input.Name, MaxInput)
		} else {
			input.Content, err = Read(path, MaxInput)
		}
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, input)
	}
	return inputs, nil
}

// Read reads a file of the caller's up to a size in bytes. It fails if there is more.
func Read(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // the caller's own file
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readAll(file, path, limit)
}

func readAll(from io.Reader, name string, limit int64) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(from, limit+1))
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("%s has more than %d MiB, which is more than is read", name, limit>>20)
	}
	return content, err
}
