# To be sourced. uv does not read pip's configuration: the index, folders of wheels and certificates.

uv_as_pip() { # uv_as_pip PYTHON: exports for uv what is configured for the pip of this interpreter
    local name value
    for name in UV_DEFAULT_INDEX=index-url UV_FIND_LINKS=find-links SSL_CERT_FILE=cert; do
        value=$("$1" -m pip --disable-pip-version-check config list 2>/dev/null |
            sed -n "s/^[^.]*\.${name#*=}='\(.*\)'$/\1/p" | tail -n 1 || true)
        [ -z "$value" ] || [ -n "$(printenv "${name%%=*}")" ] || export "${name%%=*}=$value"
    done
}
