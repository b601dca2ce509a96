#!/usr/bin/env bash
# Makes a release of both distributions, math-reward and openrlhf-gtpo, and uploads nothing:
#
#   bash launch/release.sh           # all steps but the push
#   bash launch/release.sh STEP ...  # one step, as .github/workflows/release.yml runs them on a tag
#
# check [TAG]       the folder is a commit, CHANGELOG.md has the version, and the tag is "v" and the version
# build             writes dist/VERSION: wheel and sdist of each, checked by twine; the resolved dependencies of each as
#                   CycloneDX (*.cdx.json); the lock file of the CPU stack, and SHA256SUMS
# try PYTHON        installs the wheels of dist/VERSION into an empty environment of this Python, such as 3.10, and does
#                   there what a user does first: launch/first_minutes.py
# image NAME        builds NAME:VERSION, math-reward or openrlhf-gtpo (in about an hour), and starts it
# push NAME PREFIX  pushes that image as PREFIX/NAME:VERSION: the one step that uploads
# site              the documentation, in runs/site
#
# OUT=/path takes the place of dist/VERSION. Where REPOSITORY_URL has the repository's address, the metadata, the images
# and the site link to it. The version is that of reward_server/math_reward/VERSION; one with .dev can be rehearsed, and
# no tag fits it. docs/releasing.md has the steps before and after.
#
# Needs Linux, git, uv and a package index; for images Docker. Its other tools are installed for the moment and in the
# versions below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source launch/uv_as_pip.sh

twine=twine==7.0.0
cyclonedx=cyclonedx-bom==7.5.0
lock=launch/requirements-cpu.txt
pythons=(3.10 3.11 3.12)

fail() {
    echo "launch/release.sh: $*" >&2
    exit 1
}

version=$(cat reward_server/math_reward/VERSION)
revision=$(git rev-parse --verify HEAD 2>/dev/null) || fail "needs a git clone, and this folder is none."
out=$(realpath --canonicalize-missing "${OUT:-dist/$version}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

check() { # check [TAG]
    local changes of_version=reward_server/math_reward/VERSION
    changes=$(git status --porcelain | cut -c4-)
    [ -z "$changes" ] || fail "releases a commit, and this folder has changes: commit or remove ${changes//$'\n'/, }."
    [ -z "${1:-}" ] || [ "$1" = "v$version" ] || fail "the tag is $1, and by $of_version it has to be v$version."
    case $version in
        *.dev*) [ -z "${1:-}" ] || fail "$version is no release: write its version into $of_version, then tag that commit." ;;
        *) grep -qxF "## $version" <(cut -d, -f1 CHANGELOG.md) ||
            fail "CHANGELOG.md has no section '## $version': write what changed, or correct $of_version." ;;
    esac
}

install() { # install ENVIRONMENT PACKAGES...: from the wheels, and of other packages from the index
    "$uv" pip install --quiet --python "$scratch/$1/bin/python" --find-links "${built:-$out}" \
        ${UV_FIND_LINKS:+--find-links "$UV_FIND_LINKS"} "${@:2}"
}

dependencies() { # dependencies DISTRIBUTION PYPROJECT: of what the environment of this name has
    # The tool reads no version from another file.
    sed "s/^dynamic = \[\"version\".*\$/version = \"$version\"/" "$2" >"$scratch/pyproject.toml"
    "$uv" tool run --quiet --from "$cyclonedx" cyclonedx-py environment --pyproject "$scratch/pyproject.toml" --mc-type library \
        --output-reproducible --output-format JSON --output-file "$built/$1-$version.cdx.json" "$scratch/$1/bin/python"
}

build() {
    local built=$scratch/built
    check
    [ ! -e "$out" ] || fail "${OUT:-dist/$version} is there already: remove it, or name another folder with OUT."
    # Each wheel is built from the sdist beside it. Times in the archives are those of the commit, and the build's tools
    # are the locked ones, so that another build of this commit has the same bytes.
    RELEASE=1 SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) "$uv" build --quiet --all-packages --out-dir "$built" \
        --build-constraints "$lock" --require-hashes
    rm -f "$built/.gitignore"
    "$uv" tool run --quiet "$twine" check --strict "$built"/*
    "$uv" venv --quiet "$scratch/math-reward"
    install math-reward "math-reward[server,client]==$version"
    dependencies math-reward reward_server/pyproject.toml
    "$uv" venv --quiet "$scratch/openrlhf-gtpo"
    install openrlhf-gtpo "openrlhf-gtpo[quickstart]==$version"
    dependencies openrlhf-gtpo pyproject.toml
    cp "$lock" "$built/"
    (cd "$built" && sha256sum -- * >SHA256SUMS)
    mkdir -p "$(dirname "$out")"
    mv "$built" "$out"
}

try() { # try PYTHON
    local stage torch
    [ -d "$out" ] || fail "there are no wheels in $out: run \`bash launch/release.sh build\` first."
    "$uv" venv --quiet --python "$1" "$scratch/$1"
    first_minutes() { (cd "$scratch" && "$1/bin/python" -I "$OLDPWD/launch/first_minutes.py" "$2"); }
    for stage in grader=math-reward plugin=openrlhf-gtpo 'service=math-reward[server]'; do
        install "$1" "${stage#*=}==$version"
        first_minutes "$1" "${stage%%=*}"
    done
    torch=$(sed -n 's/^torch=//p' launch/setup.sh) # its CPU build, as that script finds it
    if install "$1" "torch==$torch+cpu" 2>/dev/null || install "$1" --torch-backend cpu "torch==$torch" 2>/dev/null; then
        first_minutes "$1" torch
    elif [ -n "${GITHUB_ACTIONS:-}" ]; then # before a release nothing is left out
        fail "no CPU build of torch $torch for Python $1 can be installed beside the wheels: see whether an index has one."
    else
        echo "Nothing was shaped with Python $1: no CPU build of torch $torch for it can be reached from here."
    fi
}

image() { # image NAME
    local dockerfile first
    case $1 in
        math-reward) dockerfile=reward_server/Dockerfile first=(grade 'so \boxed{42}' 42) ;;
        openrlhf-gtpo) dockerfile=plugin/Dockerfile first=(openrlhf-gtpo --help) ;;
        *) fail "there is no image '$1': they are math-reward and openrlhf-gtpo." ;;
    esac
    docker build --file "$dockerfile" --tag "$1:$version" --build-arg "VERSION=$version" \
        --build-arg "REVISION=$revision" ${REPOSITORY_URL:+--label "org.opencontainers.image.source=$REPOSITORY_URL"} .
    docker run --rm --network none "$1:$version" "${first[@]}"
}

push() { # push NAME PREFIX
    local name=${2,,}/$1:$version # no registry takes capitals
    docker tag "$1:$version" "$name"
    docker push "$name"
}

site() { # the locked mkdocstrings for Python 3.10 does not work with the locked pymdown-extensions
    "$uv" venv --quiet --python '>=3.11.5,<3.13' "$scratch/site"
    "$uv" pip install --quiet --python "$scratch/site/bin/python" --constraints "$lock" -r pyproject.toml --extra docs
    NO_MKDOCS_2_WARNING=1 "$scratch/site/bin/mkdocs" build --strict
}

all() {
    local python name
    echo "1 of 4: wheels and sdists of $version"
    build
    echo "2 of 4: a user's first minutes, in empty environments"
    for python in "${pythons[@]}"; do
        if "$uv" python find --no-python-downloads "$python" >/dev/null 2>&1; then
            try "$python"
        else
            echo "There is no Python $python here: only continuous integration tries the wheels with it."
        fi
    done
    echo "3 of 4: images"
    if docker info >/dev/null 2>&1; then
        for name in math-reward openrlhf-gtpo; do image "$name"; done
    else
        echo "No image was built: there is no Docker here, or its daemon does not answer."
    fi
    echo "4 of 4: the site"
    site
    echo "Done: $out and runs/site. Nothing was uploaded."
}

case ${1:-all} in
    check | image | push) ;;
    build | try | site | all)
        uv=$(command -v uv || command -v .venv/bin/uv) || fail "needs uv: install it by \`pip install uv\`."
        uv_as_pip "$(command -v .venv/bin/python || command -v python3 || command -v python)"
        ;;
    *) fail "there is no step '$1': they are check, build, try, image, push and site; without one all are made but push." ;;
esac
"${@:-all}"
