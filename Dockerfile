# The image of manager and listener. Build it with
#   docker build --build-arg VERSION=0.1.0 --build-arg COMMIT_SHA=$(git rev-parse HEAD) .
# VERSION must be the charts' appVersion: the manager compares it with the version label of what the charts made.

# The compiler runs on the builder's platform and makes code for the target's.
FROM --platform=$BUILDPLATFORM golang:1.26 AS builder
WORKDIR /src
# Modules first: their layer survives changes of the code.
COPY go.mod go.sum go.work go.work.sum* ./
COPY apis/go.mod apis/go.sum apis/
COPY github/actions/go.mod github/actions/go.sum github/actions/
COPY operations/go.mod operations/go.sum operations/
# Of the workspace's modules, those of development and tests are not here.
RUN go work edit -dropuse=./hack -dropuse=./test && go mod download
COPY apis apis
COPY charts charts
COPY github github
COPY internal internal
COPY cmd cmd
COPY operations operations
COPY hack/images hack/images
ARG VERSION=dev
ARG COMMIT_SHA=dev
ARG TARGETOS
ARG TARGETARCH
# The authorities that hack/images/go.mod pins, not those of the builder's image.
RUN GOOS= GOARCH= GOWORK=off go -C hack/images run . certificates >/ca-certificates.crt
# Static, because the final image has no C library.
ENV CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH
RUN flags="-s -w -X github.com/harrier-ci/harrier/internal/build.Version=${VERSION} -X github.com/harrier-ci/harrier/internal/build.CommitSHA=${COMMIT_SHA}" \
    && go build -trimpath -ldflags "$flags" -o /out/manager ./cmd/manager \
    && go build -trimpath -ldflags "$flags" -o /out/ghalistener ./cmd/listener \
    && go build -trimpath -ldflags "$flags" -o /out/harrier ./operations/cmd/harrier

# The three programs, the certificates of public authorities, and nothing else to run.
FROM scratch
WORKDIR /
COPY --from=builder /ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=builder /out/manager /out/ghalistener /out/harrier /
USER 65532:65532
ENTRYPOINT ["/manager"]
