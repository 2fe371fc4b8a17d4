// Package artefacts makes the files of a release that are no images: archives of charts and programs, what they are
// made of, where they come from, checksums, and notes. The same inputs give the same bytes on every machine and at any
// time. It runs nothing and asks nobody.
//
//	images (package main) ─┐
//	charts, programs ──────┴─▶ files ─▶ bill of materials, provenance, checksums
package artefacts

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"time"
)

// Epoch is the time of everything in an archive.
var Epoch = time.Unix(0, 0).UTC()

// File is a regular file of an archive.
type File struct {
	Content []byte
	Mode    fs.FileMode
}

// Files are those of an archive by their path in it.
type Files map[string]File

// Read returns the files of a directory as they are to lie below prefix. It fails on what is no regular file: an
// archive that leaves something out, or follows a link, isn't what was asked for.
func Read(directory, prefix string) (Files, error) {
	files := Files{}
	from := os.DirFS(directory)
	err := fs.WalkDir(from, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if !entry.Type().IsRegular() {
			return fmt.Errorf("%s is no regular file", path.Join(directory, name))
		}
		content, err := fs.ReadFile(from, name)
		files[path.Join(prefix, name)] = File{Content: content, Mode: 0o644}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", directory, err)
	}
	return files, nil
}

// Tar writes the files in the order of their paths, owned by root and dated to the epoch.
func (files Files) Tar(to io.Writer) error {
	writer := tar.NewWriter(to)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := files[name]
		header := &tar.Header{
			Typeflag: tar.TypeReg,
			Name:     name,
			Mode:     int64(file.Mode),
			Size:     int64(len(file.Content)),
			ModTime:  Epoch,
		}
		if err := writer.WriteHeader(header); err != nil {
			return fmt.Errorf("write header of %s: %w", name, err)
		}
		if _, err := writer.Write(file.Content); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return writer.Close()
}

// TarGzip writes the same, compressed. The header of gzip has no name and no time.
func (files Files) TarGzip(to io.Writer) error {
	writer := gzip.NewWriter(to)
	if err := files.Tar(writer); err != nil {
		return err
	}
	return writer.Close()
}

// Zip writes the same files in the other format, dated to the first moment that it knows, in 1980.
func (files Files) Zip(to io.Writer) error {
	writer := zip.NewWriter(to)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := &zip.FileHeader{Name: name, Method: zip.Deflate}
		header.SetMode(files[name].Mode)
		entry, err := writer.CreateHeader(header)
		if err == nil {
			_, err = entry.Write(files[name].Content)
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return writer.Close()
}
