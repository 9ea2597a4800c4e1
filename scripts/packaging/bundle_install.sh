#!/bin/sh
# Installs meshplan from the unpacked archive that holds this script, without a network:  sh install.sh FOLDER
# FOLDER becomes a virtual environment with nothing else in it. PYTHON names an interpreter; else the newest that the archive has wheels
# for. Run again it mends what was interrupted and upgrades: what was there stays until the new one answers, and comes back if it does not.
set -eu
umask 022
here=$(cd "$(dirname "$0")" && pwd)
wheels=$here/wheels
made=.made-by-meshplan   # with the version in it: the folder is ours to replace
replaced=.replaced       # what stood in the folder; it is there only while an installation runs, or was killed
case ${MESHPLAN_LANGUAGE:-${LC_ALL:-${LC_MESSAGES:-${LANG:-}}}} in
    zh | zh*[Uu][Tt][Ff]*8) chinese=1 ;;
    *) chinese= ;;
esac

say() { # English Chinese
    if [ "$chinese" ]; then echo "meshplan: $2"; else echo "meshplan: $1"; fi
}

refuse() {
    say "$@" >&2
    exit 2
}

if [ $# -ne 1 ] || [ "${1#-}" != "$1" ] || [ -z "$1" ]; then
    refuse "usage: [PYTHON=/path/to/python3] sh install.sh FOLDER, as in: sh install.sh /opt/meshplan" \
        "用法：[PYTHON=/path/to/python3] sh install.sh 目录，例如：sh install.sh /opt/meshplan"
fi
case $1 in /*) folder=$1 ;; *) folder=$PWD/$1 ;; esac

damaged=$(cd "$here" && LC_ALL=C sha256sum --check --quiet SHA256SUMS 2>&1 | head -n 1)
if [ "$damaged" ]; then
    refuse "the archive is damaged ($damaged): copy and unpack it again." "安装包已损坏（$damaged）：请重新复制并解压。"
fi

has_wheels() { # of the Python tag $1 for the machine $2: numpy comes compiled for each
    # shellcheck disable=SC2086 # the tag may be a pattern
    set -- "$wheels"/numpy-*-$1-*_"$2".whl
    [ -e "$1" ]
}

machine=$(uname -m)
if ! has_wheels 'cp*' "$machine"; then
    refuse "this archive has no wheels for $(uname -s) on $machine: INSTALL.txt says for which." \
        "本安装包没有适用于 $(uname -s) $machine 的 wheel：支持哪些机器见 INSTALL.txt。"
fi

python=
found=
for name in ${PYTHON:-python3.13 python3.12 python3.11 python3}; do
    tag=$("$name" -I -c 'import sys; print("%s%d%d" % ((sys.implementation.name,) + sys.version_info[:2]))' 2>/dev/null) || continue
    tag=cp${tag#cpython}
    if has_wheels "$tag" "$machine"; then
        python=$name
        break
    fi
    found="${found:+$found, }$name ($("$name" -V 2>&1))"
done
if [ -z "$python" ]; then
    wanted=$(for file in "$wheels"/numpy-*_"$machine".whl; do echo "$file"; done | sed 's/.*-cp3\([0-9]*\)-cp.*/3.\1/' | sort -u | tr '\n' ' ' | sed 's/ $//; s# # / #g')
    refuse "this archive is for Python $wanted, and there is ${found:-none}: install one, or name it with PYTHON=/path/to/python3." \
        "本安装包适用于 Python $wanted，本机为：${found:-无}。请安装，或用 PYTHON=/path/to/python3 指定。"
fi
libc=$("$python" -I -c 'import os; print(os.confstr("CS_GNU_LIBC_VERSION") or "")' 2>/dev/null) || libc=
case $libc in
    'glibc 2.2[89]' | 'glibc 2.2[89].'* | 'glibc 2.'[3-9][0-9]*) ;;
    *)
        refuse "the wheels need glibc 2.28 or newer; this machine has ${libc:-another C library}." \
            "wheel 需要 glibc 2.28 或更高版本；本机为 ${libc:-其他 C 库}。"
        ;;
esac

fresh=
[ -d "$folder" ] || fresh=1
if ! mkdir -p "$folder" 2>/dev/null || ! [ -w "$folder" ]; then
    refuse "$(id -un) may not write $folder: name another folder, or let its owner run this." \
        "$(id -un) 无权写入 $folder：请换一个目录，或由其所有者运行。"
fi

exec 9<"$folder" # a lock that goes when the last of these processes does, however it ends
if ! "$python" -I -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)' 2>/dev/null; then
    refuse "another installation is at work in $folder: wait for it." "另一个安装正在 $folder 中进行：请等待其结束。"
fi

contents() { # all but what was replaced
    find "$folder" -mindepth 1 -maxdepth 1 ! -name "$replaced" "$@"
}

restore() {
    contents -exec rm -rf {} +
    find "$folder/$replaced" -mindepth 1 -maxdepth 1 -exec mv {} "$folder/" \;
    rmdir "$folder/$replaced"
}

if [ -d "$folder/$replaced" ]; then restore; fi # an earlier run was killed
if [ "$(contents)" ] && ! [ -f "$folder/$made" ]; then
    refuse "$folder holds something that this script did not put there: name a new or an empty folder." \
        "$folder 中有并非由本脚本安装的内容：请指定新的或空的目录。"
fi
older=$(cat "$folder/$made" 2>/dev/null) || older=

leave() {
    status=$?
    trap - EXIT
    if [ -d "$folder/$replaced" ]; then
        restore
        if [ "$fresh" ]; then rmdir "$folder" 2>/dev/null || :; fi
        say "nothing was installed; $folder is as it was." "未安装任何内容；$folder 保持原样。" >&2
    fi
    exit "$status"
}
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

say "installing into $folder; this takes about a minute." "正在安装到 $folder，约需一分钟。"
mkdir "$folder/$replaced"
contents -exec mv {} "$folder/$replaced/" \;
if ! "$python" -I -m venv --without-pip "$folder"; then
    refuse "$python cannot make a virtual environment: install its venv module." "$python 无法创建虚拟环境：请安装其 venv 模块。"
fi
# Nothing of the user's pip: no index, no other folders, no other target.
for pip in "$wheels"/pip-*.whl; do :; done
if ! PIP_CONFIG_FILE=/dev/null "$folder/bin/python" -I "$pip/pip" --isolated install --quiet --no-cache-dir \
    --disable-pip-version-check --no-index --find-links "$wheels" pip 'meshplan[postgres]'; then
    refuse "pip failed, as it says above." "pip 失败，原因见上。"
fi
if ! version=$("$folder/bin/meshplan" --version) || ! "$folder/bin/meshplan" hardware list >/dev/null; then
    refuse "what was installed does not start, as it says above." "安装后的程序无法启动，原因见上。"
fi
echo "${version#meshplan }" >"$folder/$made"
mv "$folder/$replaced" "$folder/$replaced.old" # from here on the new one stays
rm -rf "$folder/$replaced.old"
say "${version#meshplan } is in $folder${older:+, in place of $older}: $folder/bin/meshplan --help" \
    "${version#meshplan } 已安装到 $folder${older:+（原为 $older）}：$folder/bin/meshplan --help"
