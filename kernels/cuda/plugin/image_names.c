/* Which kernels an image has, read from the image itself: the symbols of a cubin, which is an ELF file, or the text of
 * PTX. */
#include <elf.h>
#include <string.h>

#include "kernels/cuda/plugin/images.h"

enum { STO_CUDA_ENTRY = 0x10 }; /* in st_other: a kernel, not a function that kernels call */

/* The section `index` lies within the file and is of entries of `entry` bytes (1: of any). */
static const Elf64_Shdr *section(const unsigned char *code, size_t bytes, size_t index, size_t entry)
{
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)code;
    const Elf64_Shdr *s;

    if (index >= h->e_shnum || h->e_shoff > bytes || h->e_shnum > (bytes - h->e_shoff) / sizeof *s)
        return NULL;
    s = (const Elf64_Shdr *)(code + h->e_shoff) + index;
    return s->sh_offset <= bytes && s->sh_size <= bytes - s->sh_offset && s->sh_size % entry == 0 ? s : NULL;
}

static bool symbols_have(const unsigned char *code, size_t bytes, const Elf64_Shdr *table, const char *name)
{
    const Elf64_Shdr *strings = section(code, bytes, table->sh_link, 1);
    const Elf64_Sym *symbol = (const Elf64_Sym *)(code + table->sh_offset);
    size_t n = table->sh_size / sizeof *symbol, len = strlen(name) + 1;

    for (size_t i = 0; strings && i < n; i++) {
        size_t at = symbol[i].st_name;

        if (ELF64_ST_TYPE(symbol[i].st_info) == STT_FUNC && symbol[i].st_other & STO_CUDA_ENTRY &&
            at < strings->sh_size && len <= strings->sh_size - at && !memcmp(code + strings->sh_offset + at, name, len))
            return true;
    }
    return false;
}

static bool cubin_has(const unsigned char *code, size_t bytes, const char *name)
{
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)code;

    if (bytes < sizeof *h || memcmp(h->e_ident, ELFMAG, SELFMAG) || h->e_ident[EI_CLASS] != ELFCLASS64 ||
        h->e_shentsize != sizeof(Elf64_Shdr))
        return false;
    for (size_t i = 0; i < h->e_shnum; i++) {
        const Elf64_Shdr *s = section(code, bytes, i, 1);

        if (s && s->sh_type == SHT_SYMTAB && (s = section(code, bytes, i, sizeof(Elf64_Sym))))
            return symbols_have(code, bytes, s, name);
    }
    return false;
}

/* ".entry name(" */
static bool ptx_has(const char *text, const char *name)
{
    static const char entry[] = ".entry ";
    size_t len = strlen(name);

    while ((text = strstr(text, entry))) {
        text += sizeof entry - 1;
        if (!strncmp(text, name, len) && (text[len] == '(' || text[len] == '\n' || text[len] == ' '))
            return true;
    }
    return false;
}

bool image_has_kernel(const void *code, size_t bytes, ImageKind kind, const char *name)
{
    return kind == IMAGE_cubin ? cubin_has(code, bytes, name) : ptx_has(code, name);
}
