# All images for several platforms: `docker buildx bake -f deploy/docker/bake.hcl` at the root of the checkout.
#   CHOIR_IMAGES=registry.example/choir- CHOIR_VERSION=1.2.3 docker buildx bake -f deploy/docker/bake.hcl --push
# A platform other than this machine's needs QEMU: `docker run --privileged --rm tonistiigi/binfmt --install arm64`.
variable "CHOIR_IMAGES" { default = "choir-" }
variable "CHOIR_VERSION" { default = "local" }
variable "CHOIR_REVISION" { default = "" }
variable "CHOIR_PLATFORMS" { default = "linux/amd64,linux/arm64" }

group "default" {
  targets = ["image"]
}

target "image" {
  name       = item
  matrix     = { item = ["control", "agent", "egress", "memory", "gateway", "browser", "tools", "builder", "transcriber"] }
  context    = "."
  dockerfile = "deploy/docker/Dockerfile"
  target     = item
  platforms  = split(",", CHOIR_PLATFORMS)
  tags       = ["${CHOIR_IMAGES}${item}:${CHOIR_VERSION}"]
  labels = {
    "org.opencontainers.image.version"  = CHOIR_VERSION
    "org.opencontainers.image.revision" = CHOIR_REVISION
  }
}
