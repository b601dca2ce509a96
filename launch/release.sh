#!/usr/bin/env bash
# Makes a release of both distributions, math-reward and openrlhf-gtpo, and uploads nothing:
#
#   bash launch/release.sh           # writes dist/VERSION
#   OUT=/path bash launch/release.sh
#
# In the folder: wheel and sdist of each, which were checked by twine and installed into an empty environment, where the
# first grade of reward_server/README.md was right; the resolved dependencies of each as CycloneDX (*.cdx.json); the lock
# file of the CPU stack, and SHA256SUMS. With Docker it also builds and tags the images, the trainer's in about an hour.
# The version is that of reward_server/math_reward/VERSION. docs/releasing.md has the steps before and after.
#
# Needs Linux, git, uv and a package index. Its other tools are installed for the moment and in the versions below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source launch/uv_as_pip.sh

twine=twine==7.0.0
cyclonedx=cyclonedx-bom==7.5.0
lock=launch/requirements-cpu.txt

fail() {
    echo "launch/release.sh: $*" >&2
    exit 1
}

uv=$(command -v uv || command -v .venv/bin/uv) || fail "needs uv: install it by \`pip install uv\`."
uv_as_pip "$(command -v .venv/bin/python || command -v python3 || command -v python)"
version=$(cat reward_server/math_reward/VERSION)
revision=$(git rev-parse --verify HEAD 2>/dev/null) || fail "needs a git clone, and this folder is none."
changes=$(git status --porcelain | cut -c4-)
[ -z "$changes" ] || fail "releases a commit, and this folder has changes: commit or remove ${changes//$'\n'/, }."
grep -qxF "## $version" <(cut -d, -f1 CHANGELOG.md) ||
    fail "CHANGELOG.md has no section '## $version': write what changed, or correct reward_server/math_reward/VERSION."
out=${OUT:-dist/$version}
[ ! -e "$out" ] || fail "$out is there already: remove it, or name another folder with OUT."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
built=$scratch/built
python=$scratch/empty/bin/python

echo "1 of 5: wheels and sdists of $version"
# Each wheel is built from the sdist beside it. Times in the archives are those of the commit, and the build's tools are
# the locked ones, so that another build of this commit has the same bytes.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) "$uv" build --quiet --all-packages --out-dir "$built" \
    --build-constraints "$lock" --require-hashes
rm -f "$built/.gitignore"
"$uv" tool run --quiet "$twine" check --strict "$built"/*

echo "2 of 5: the first grade, in an empty environment"
"$uv" venv --quiet "$scratch/empty"
install() { "$uv" pip install --quiet --python "$python" --find-links "$built" "$@"; }
install "math-reward==$version"
first_grade=$(awk '/^```python$/ { on = 1; next } on && /^```$/ { exit } on' reward_server/README.md)
said=$(cd "$scratch" && "$python" -I -c "$first_grade")
[ "$said" = "${first_grade##*# }" ] || fail "the first grade of reward_server/README.md printed '$said'."
[ "$("$scratch/empty/bin/math-reward" --version)" = "math-reward $version" ] || fail "math-reward has another version."

echo "3 of 5: the resolved dependencies"
dependencies() { # dependencies DISTRIBUTION PYPROJECT: of what the empty environment has
    # The tool reads no version from another file.
    sed "s/^dynamic = \[\"version\"\]\$/version = \"$version\"/" "$2" >"$scratch/pyproject.toml"
    "$uv" tool run --quiet --from "$cyclonedx" cyclonedx-py environment --pyproject "$scratch/pyproject.toml" --mc-type library \
        --output-reproducible --output-format JSON --output-file "$built/$1-$version.cdx.json" "$python"
}
install "math-reward[server,client]==$version"
dependencies math-reward reward_server/pyproject.toml
"$uv" venv --quiet --clear "$scratch/empty"
install "openrlhf-gtpo[quickstart]==$version"
dependencies openrlhf-gtpo pyproject.toml
cp "$lock" "$built/"

echo "4 of 5: images"
if docker info >/dev/null 2>&1; then
    for image in math-reward:reward_server openrlhf-gtpo:plugin; do
        docker build --file "${image#*:}/Dockerfile" --tag "${image%:*}:$version" \
            --build-arg "VERSION=$version" --build-arg "REVISION=$revision" .
    done
else
    echo "No image was built: there is no Docker here, or its daemon does not answer."
fi

echo "5 of 5: checksums"
(cd "$built" && sha256sum -- * >SHA256SUMS)
mkdir -p "$(dirname "$out")"
mv "$built" "$out"
echo "Done: $out. Nothing was uploaded."
