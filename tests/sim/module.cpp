/* compile(): the source with the shim before it goes through the host's C++ compiler.  The name of the file is a hash
 * of all that matters, so what is found was made of the same text. */
#include "tests/sim/module.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include <dirent.h>
#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sim
{

namespace
{

constexpr const char *FLAGS =
    SIM_CXX_FLAGS " -std=c++17 -O1 -fno-strict-aliasing -fPIC -fvisibility=hidden -ffp-contract=off -w";
/* All that a kernel calls; libstdc++, which none does, takes the linker longer than the rest. */
constexpr const char *LIBRARIES = " -nostdlib -lm -lc -lgcc";
constexpr const char *FOLDERS = " -I" SOURCE_DIR " -I" SOURCE_DIR "/kernels/cuda/device";
/* What every generated source begins with; compiled once, for it takes longer than a source. */
constexpr const char *PREFIX = "#include \"tests/sim/shim.h\"\n#include \"kernels/cuda/device/elementwise.cuh\"\n";
constexpr const char *FOOTER = "\nextern \"C\" __attribute__((visibility(\"default\"))) "
                               "const dpx_sim::KernelEntry *dpx_sim_module(const dpx_sim::Services *s)\n"
                               "{ dpx_sim::services = s; dpx_sim::state = s->state; return dpx_sim::kernels; }\n";
typedef const dpx_sim::KernelEntry *ModuleEntry(const dpx_sim::Services *);

uint64_t hash(uint64_t h, const std::string &text)
{
    for (unsigned char c : text)
        h = (h ^ c) * 0x100000001b3u;
    return h;
}

std::string read_file(const std::string &path)
{
    std::ifstream f(path);
    std::stringstream s;

    s << f.rdbuf();
    return s.str();
}

/* Of the headers that a source can include. */
uint64_t hash_headers()
{
    const std::string dir = SOURCE_DIR "/kernels/cuda/device/";
    uint64_t h = 0xcbf29ce484222325u;
    struct dirent **entry;
    int n = scandir(
        dir.c_str(), &entry, [](const struct dirent *d) { return (int)!!std::strstr(d->d_name, ".cuh"); }, alphasort);

    for (int i = 0; i < n; i++) {
        h = hash(h, read_file(dir + entry[i]->d_name));
        std::free(entry[i]);
    }
    if (n >= 0)
        std::free(entry);
    h = hash(h, read_file(SOURCE_DIR "/kernels/formulas.def"));
    h = hash(h, read_file(SOURCE_DIR "/tests/sim/shim.h"));
    return hash(hash(h, read_file(SOURCE_DIR "/tests/sim/half.h")),
                std::string(SIM_CXX) + FLAGS + LIBRARIES + PREFIX + FOOTER);
}

/* Of the headers that are named in the source itself and not among those. */
uint64_t hash_named(uint64_t h, const std::string &source)
{
    const std::string include = "#include \"", shared = ".h\"";

    for (size_t at = 0; (at = source.find(include, at)) != std::string::npos; at++) {
        const size_t from = at + include.size(), to = source.find(shared, from), line = source.find('\n', from);

        if (to < line)
            h = hash(h, read_file(SOURCE_DIR "/" + source.substr(from, to + 2 - from)));
    }
    return h;
}

std::string hex(uint64_t h)
{
    char text[17];

    std::snprintf(text, sizeof text, "%016llx", (unsigned long long)h);
    return text;
}

std::string default_cache()
{
    const char *given = std::getenv("DPEXEC_SIM_CACHE");

    return given && *given ? given : BUILD_DIR "/sim-cache";
}

/* The folder and those it lies in, as far as they are missing. */
void make_folders(const std::string &dir)
{
    for (size_t at = dir.find('/', 1); at != std::string::npos; at = dir.find('/', at + 1))
        mkdir(dir.substr(0, at).c_str(), 0777);
    mkdir(dir.c_str(), 0777);
}

std::string first_error(const std::string &log)
{
    std::istringstream lines(read_file(log));
    std::string line, any;

    while (std::getline(lines, line)) {
        if (line.find("error:") != std::string::npos)
            return line;
        if (any.empty())
            any = line;
    }
    return any.empty() ? "no message" : any;
}

/* "PATH.PROCESS.PLACE": of this call alone. */
std::string own_name(const std::string &path, const void *place)
{
    return path + "." + std::to_string(getpid()) + "." + std::to_string((unsigned long)(uintptr_t)place);
}

/* Puts a file there unless there is one: written beside the place and moved, for other processes may do the same. */
Status write_new(const std::string &path, const std::string &text)
{
    std::string own = own_name(path, &path);

    if (!access(path.c_str(), R_OK))
        return ST_OK;
    std::ofstream(own) << text;
    bool made = !link(own.c_str(), path.c_str()) || errno == EEXIST;
    unlink(own.c_str());
    return made ? ST_OK : FAIL(E_IO, "compile: cannot write %s", path.c_str());
}

/* Likewise, what the compiler makes of `source`, a file. */
Status compile_file(const std::string &path, const std::string &source, const std::string &options,
                    const std::string &libraries, const char *name)
{
    std::string own = own_name(path, &path), log = own + ".log";
    std::string command = std::string(SIM_CXX) + FLAGS + FOLDERS + options + " -o '" + own + "' '" + source + "'" +
                          libraries + " 2>'" + log + "'";
    int rc = std::system(command.c_str());
    Status st = ST_OK;

    if (rc)
        st = FAIL(E_INTERNAL, "compile %s: %s", name, first_error(log).c_str());
    else if (std::rename(own.c_str(), path.c_str()))
        st = FAIL(E_IO, "compile %s: cannot write %s", name, path.c_str());
    unlink(log.c_str());
    return st;
}

/* The prefix, compiled: FILE.gch is what the compiler takes for FILE.  It depends on where the headers lie. */
Status prefix_build(std::string *file, const std::string &dir, uint64_t headers)
{
    *file = dir + "/prefix-" + hex(hash(headers, FOLDERS)) + ".h";
    TRY(write_new(*file, PREFIX));
    return access((*file + ".gch").c_str(), R_OK)
               ? compile_file(*file + ".gch", *file, " -x c++-header", "", "the headers")
               : ST_OK;
}

Status source_build(const std::string &path, const std::string &source, const std::string &prefix, const char *name)
{
    std::string text = own_name(path, &path) + ".cu";
    std::ofstream(text) << "#line 1 \"" << name << "\"\n" << source << FOOTER;
    Status st = compile_file(path, text, " -x c++ -shared -include '" + prefix + "'", LIBRARIES, name);
    unlink(text.c_str());
    return st;
}

} // namespace

Status module_build(const dpx_sim::KernelEntry **out, const char *source, const char *name,
                    const std::string &cache_dir)
{
    static const uint64_t headers = hash_headers();
    std::string dir = cache_dir.empty() ? default_cache() : cache_dir, prefix;
    std::string path = dir + "/sim-" + hex(hash(hash_named(headers, source), source)) + ".so";
    void *so;

    make_folders(dir);
    if (access(dir.c_str(), W_OK))
        return FAIL(E_IO, "compile %s: cannot write to %s", name, dir.c_str());
    if (access(path.c_str(), R_OK)) {
        TRY(prefix_build(&prefix, dir, headers));
        TRY(source_build(path, source, prefix, name));
    }
    if (!(so = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)))
        return FAIL(E_INTERNAL, "compile %s: %s", name, dlerror());
    ModuleEntry *entry = (ModuleEntry *)dlsym(so, "dpx_sim_module");
    if (!entry)
        return FAIL(E_INTERNAL, "compile %s: %s", name, dlerror());
    *out = entry(dpx_sim::services);
    return ST_OK;
}

} // namespace sim
