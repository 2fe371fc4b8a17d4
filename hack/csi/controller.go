package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// defaultBytes is the size of a volume for which nobody asks one, in bytes. No size is ever enforced.
const defaultBytes = 1 << 20

// Faults are parameters of a StorageClass or a VolumeSnapshotClass.
const (
	// faultDelay is how long the driver needs, such as 3s.
	faultDelay = "delay"
	// faultError is what it refuses every request with.
	faultError = "error"
	// faultNeverReady makes snapshots that never get ready, whatever its value.
	faultNeverReady = "neverReady"
)

// faultsOf returns the delay of a class, and the error with which it refuses.
func faultsOf(parameters map[string]string) (time.Duration, error) {
	if text := parameters[faultError]; text != "" {
		return 0, status.Error(codes.Internal, text)
	}
	text := parameters[faultDelay]
	if text == "" {
		return 0, nil
	}
	delay, err := time.ParseDuration(text)
	if err != nil {
		return 0, status.Errorf(codes.InvalidArgument, "parameter %s: %v", faultDelay, err)
	}
	return delay, nil
}

// ControllerGetCapabilities says that the driver makes volumes, snapshots, and volumes out of both.
func (d *driver) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	response := &csi.ControllerGetCapabilitiesResponse{}
	for _, what := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
	} {
		response.Capabilities = append(response.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: what}},
		})
	}
	return response, nil
}

// CreateVolume makes a folder, empty or a copy.
func (d *driver) CreateVolume(ctx context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if r.Name == "" {
		return nil, status.Error(codes.InvalidArgument, "the volume has no name")
	}
	if err := suits(r.VolumeCapabilities); err != nil {
		return nil, err
	}
	delay, err := faultsOf(r.Parameters)
	if err != nil {
		return nil, err
	}
	least, most := r.CapacityRange.GetRequiredBytes(), r.CapacityRange.GetLimitBytes()
	wanted := folder{ID: identify(r.Name), Name: r.Name, Bytes: max(least, defaultBytes), Ready: true}
	source, from, err := d.sourceOf(r.VolumeContentSource)
	if err != nil {
		return nil, err
	}
	wanted.Source = source.ID
	if source.Bytes > wanted.Bytes && least > 0 {
		return nil, status.Errorf(codes.OutOfRange, "the source has %d bytes", source.Bytes)
	}
	made, err := d.store.add(ctx, volumes, wanted, from, delay)
	switch {
	case err != nil:
		return nil, failed(err)
	case made.Bytes < least || (most > 0 && made.Bytes > most), made.Source != wanted.Source:
		return nil, status.Error(codes.AlreadyExists, "there is another volume of this name")
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: made.ID, CapacityBytes: made.Bytes, ContentSource: r.VolumeContentSource,
	}}, nil
}

// sourceOf returns the volume or snapshot that a volume is to be a copy of, and its path; both empty for none.
func (d *driver) sourceOf(source *csi.VolumeContentSource) (folder, string, error) {
	of, id := snapshots, source.GetSnapshot().GetSnapshotId()
	if source.GetVolume() != nil {
		of, id = volumes, source.GetVolume().GetVolumeId()
	}
	if source == nil {
		return folder{}, "", nil
	}
	found, err := d.store.find(of, id)
	if err != nil {
		return folder{}, "", failed(err)
	}
	return found, d.store.path(of, id), nil
}

// DeleteVolume deletes the folder.
func (d *driver) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if r.VolumeId == "" {
		return nil, status.Error(codes.InvalidArgument, "which volume?")
	}
	return &csi.DeleteVolumeResponse{}, failed(d.store.remove(volumes, r.VolumeId))
}

// ValidateVolumeCapabilities confirms what CreateVolume takes.
func (d *driver) ValidateVolumeCapabilities(
	_ context.Context, r *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if r.VolumeId == "" || len(r.VolumeCapabilities) == 0 {
		return nil, status.Error(codes.InvalidArgument, "volume or capabilities are missing")
	}
	if _, err := d.store.find(volumes, r.VolumeId); err != nil {
		return nil, failed(err)
	}
	if err := suits(r.VolumeCapabilities); err != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: err.Error()}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: r.VolumeContext, VolumeCapabilities: r.VolumeCapabilities, Parameters: r.Parameters,
	}}, nil
}

// suits fails unless a folder of one node has all that is asked for.
func suits(capabilities []*csi.VolumeCapability) error {
	if len(capabilities) == 0 {
		return status.Error(codes.InvalidArgument, "capabilities are missing")
	}
	for _, c := range capabilities {
		if c.GetMount() == nil {
			return status.Error(codes.InvalidArgument, "a folder is no block device")
		}
		if mode := c.GetAccessMode().GetMode(); mode != csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER &&
			mode != csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY {
			return status.Errorf(codes.InvalidArgument, "access mode %s", mode)
		}
	}
	return nil
}

// CreateSnapshot copies the folder of a volume.
func (d *driver) CreateSnapshot(ctx context.Context, r *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	if r.Name == "" || r.SourceVolumeId == "" {
		return nil, status.Error(codes.InvalidArgument, "name or volume is missing")
	}
	delay, err := faultsOf(r.Parameters)
	if err != nil {
		return nil, err
	}
	wanted := folder{ID: identify(r.Name), Name: r.Name, Source: r.SourceVolumeId,
		Ready: r.Parameters[faultNeverReady] == ""}
	made, err := d.store.find(snapshots, wanted.ID)
	if errors.Is(err, errUnknown) {
		var source folder
		if source, err = d.store.find(volumes, r.SourceVolumeId); err != nil {
			return nil, failed(err)
		}
		wanted.Bytes = source.Bytes
		made, err = d.store.add(ctx, snapshots, wanted, d.store.path(volumes, source.ID), delay)
	}
	switch {
	case err != nil:
		return nil, failed(err)
	case made.Source != r.SourceVolumeId:
		return nil, status.Error(codes.AlreadyExists, "there is a snapshot of another volume with this name")
	}
	return &csi.CreateSnapshotResponse{Snapshot: snapshotOf(made)}, nil
}

// DeleteSnapshot deletes the folder.
func (d *driver) DeleteSnapshot(
	_ context.Context, r *csi.DeleteSnapshotRequest,
) (*csi.DeleteSnapshotResponse, error) {
	if r.SnapshotId == "" {
		return nil, status.Error(codes.InvalidArgument, "which snapshot?")
	}
	return &csi.DeleteSnapshotResponse{}, failed(d.store.remove(snapshots, r.SnapshotId))
}

// ListSnapshots lists all snapshots, those of a volume, or one.
func (d *driver) ListSnapshots(_ context.Context, r *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	all, err := d.store.list(snapshots)
	if err != nil {
		return nil, failed(err)
	}
	all = slices.DeleteFunc(all, func(f folder) bool {
		return (r.SnapshotId != "" && f.ID != r.SnapshotId) || (r.SourceVolumeId != "" && f.Source != r.SourceVolumeId)
	})
	start := 0
	if r.StartingToken != "" {
		if start, err = strconv.Atoi(r.StartingToken); err != nil || start < 0 || start > len(all) {
			return nil, status.Errorf(codes.Aborted, "token %q", r.StartingToken)
		}
	}
	end := len(all)
	if r.MaxEntries > 0 {
		end = min(end, start+int(r.MaxEntries))
	}
	response := &csi.ListSnapshotsResponse{}
	for _, each := range all[start:end] {
		response.Entries = append(response.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: snapshotOf(each)})
	}
	if end < len(all) {
		response.NextToken = strconv.Itoa(end)
	}
	return response, nil
}

func snapshotOf(f folder) *csi.Snapshot {
	return &csi.Snapshot{SnapshotId: f.ID, SourceVolumeId: f.Source, SizeBytes: f.Bytes,
		CreationTime: timestamppb.New(f.Made), ReadyToUse: f.Ready}
}

// failed turns an error of the store into one of CSI.
func failed(err error) error {
	code := codes.Internal
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errUnknown):
		code = codes.NotFound
	case errors.Is(err, errBusy):
		code = codes.Aborted
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		code = codes.DeadlineExceeded
	}
	return status.Error(code, fmt.Sprint(err))
}
