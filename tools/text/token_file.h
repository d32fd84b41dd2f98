/* Files of token ids: raw as nanoGPT writes them, with the header of llm.c, or .npy. */
#ifndef DPX_TOOLS_TOKEN_FILE_H
#define DPX_TOOLS_TOKEN_FILE_H

#include <stdint.h>

#include "graph/base/outfile.h"

typedef enum { TOKENS_RAW, TOKENS_LLMC, TOKENS_NPY } TokenFormat;

/* The first number of llm.c's header of 256 int32: of files of uint16 and of uint32. */
enum { LLMC_HEADER = 1024, LLMC_16 = 20240520, LLMC_16_VERSION = 1, LLMC_32 = 20240801, LLMC_32_VERSION = 7 };

typedef struct {
    OutFile *file;
    TokenFormat format;
    int bytes; /* of an id: 2 or 4, little-endian */
    int64_t n; /* ids */
} TokenWriter;

/* Begins a file of ids below `vocabulary`, which decides their size. */
Status token_writer_open(TokenWriter *w, const char *path, TokenFormat format, uint32_t vocabulary) CHECKED;
Status token_writer_add(TokenWriter *w, const uint32_t *id, size_t n) CHECKED;
/* Completes the file, unless `st` says that the caller failed, and returns the result. */
Status token_writer_close(TokenWriter *w, Status st) CHECKED;

#endif
