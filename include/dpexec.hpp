/* dpexec.h for C++17: handles that free themselves, spans, and exceptions with the message and the status of the engine.
 *
 *     dpexec::Options options;
 *     options.set("loss", "cross-entropy").set("devices", "cpu*2");
 *     dpexec::Model model("model.onnx", options);
 *     dpexec::Trainer trainer(model, options);
 *     while (next_batch(x, y))
 *         trainer.train_step({ dpexec::tensor("x", { 20, 64 }, x), dpexec::tensor("target", { 20 }, y) });
 *     trainer.export_to_file("trained.onnx");
 *
 * Everything is inline and calls the function of dpexec.h of the same name, whose comment tells shapes, errors and
 * threads; nothing is computed here.  Where a function returns a status, its method throws dpexec::Error instead.  A
 * handle can be moved, not copied; get() is the handle for functions of dpexec.h that have no method. */
#ifndef DPEXEC_HPP
#define DPEXEC_HPP

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "dpexec.h"

namespace dpexec {

/* ---- errors ---- */

/* A call failed: what() is dpx_error(). */
class Error : public std::runtime_error {
public:
    Error(dpx_status status, const char *message) : std::runtime_error(message), status_(status) {}
    dpx_status status() const noexcept { return status_; }
    const char *status_name() const noexcept { return dpx_status_name(status_); }

private:
    dpx_status status_;
};

inline void check(dpx_status status)
{
    if (status != DPX_OK)
        throw Error(status, dpx_error());
}

/* ---- spans: a pointer and a number of elements, lent ---- */

template <class T> class Span {
public:
    constexpr Span() noexcept = default;
    constexpr Span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <std::size_t N> constexpr Span(T (&array)[N]) noexcept : data_(array), size_(N) {}
    /* Of anything with data() and size(): std::vector, std::array, std::string, another span. */
    template <class C, class = std::enable_if_t<std::is_convertible_v<
                           std::remove_pointer_t<decltype(std::declval<C &>().data())> (*)[], T (*)[]>>>
    constexpr Span(C &from) noexcept : data_(from.data()), size_(from.size())
    {}
    /* Of a list in the call's arguments, which lives until the call returns. */
    template <class U = T, class = std::enable_if_t<std::is_const_v<U>>>
    constexpr Span(std::initializer_list<std::remove_const_t<U>> list) noexcept : Span(list.begin(), list.size())
    {}

    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr bool empty() const noexcept { return !size_; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }
    constexpr T &operator[](std::size_t i) const noexcept { return data_[i]; }
    int count() const noexcept { return static_cast<int>(size_); }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

/* ---- tensors ---- */

template <class T> constexpr dpx_dtype dtype_of() noexcept
{
    using E = std::remove_const_t<T>;
    static_assert(std::is_arithmetic_v<E>, "set dpx_tensor.dtype by hand for other types");
    if constexpr (std::is_same_v<E, bool>)
        return DPX_BOOL;
    else if constexpr (std::is_floating_point_v<E>)
        return sizeof(E) == 4 ? DPX_FLOAT32 : DPX_FLOAT64;
    else if constexpr (std::is_signed_v<E>)
        return sizeof(E) == 1 ? DPX_INT8 : sizeof(E) == 2 ? DPX_INT16 : sizeof(E) == 4 ? DPX_INT32 : DPX_INT64;
    else
        return sizeof(E) == 1 ? DPX_UINT8 : sizeof(E) == 2 ? DPX_UINT16 : sizeof(E) == 4 ? DPX_UINT32 : DPX_UINT64;
}

/* A view of the elements, in row-major order.  Throws std::length_error where shape and number of elements differ. */
template <class T> dpx_tensor tensor(const char *name, Span<const std::int64_t> shape, Span<T> elements)
{
    dpx_tensor t{};
    std::size_t n = 1;

    if (shape.size() > DPX_MAX_RANK)
        throw std::length_error("dpexec::tensor: rank " + std::to_string(shape.size()));
    t.name = name;
    t.dtype = dtype_of<T>();
    t.rank = shape.count();
    for (std::size_t i = 0; i < shape.size(); i++)
        n *= static_cast<std::size_t>(t.dim[i] = shape[i]);
    if (n != elements.size())
        throw std::length_error("dpexec::tensor: " + std::to_string(elements.size()) + " elements, the shape has " +
                                std::to_string(n));
    t.data = const_cast<std::remove_const_t<T> *>(elements.data()); /* only read where dpexec.h says const */
    return t;
}

template <class C, class T = std::remove_pointer_t<decltype(std::declval<C &>().data())>>
dpx_tensor tensor(const char *name, Span<const std::int64_t> shape, C &from)
{
    return tensor(name, shape, Span<T>(from));
}

template <class T, std::size_t N> dpx_tensor tensor(const char *name, Span<const std::int64_t> shape, T (&from)[N])
{
    return tensor(name, shape, Span<T>(from));
}

/* The elements of a tensor.  Throws std::invalid_argument where T is not its type. */
template <class T> Span<T> elements(const dpx_tensor &t)
{
    std::size_t n = 1;

    if (t.dtype != dtype_of<T>())
        throw std::invalid_argument(std::string("dpexec::elements: the tensor is ") + dpx_dtype_name(t.dtype));
    for (int i = 0; i < t.rank; i++)
        n *= static_cast<std::size_t>(t.dim[i]);
    return { static_cast<T *>(t.data), n };
}

/* ---- handles ---- */

template <class H, void (*Free)(H *)> class Handle {
public:
    Handle() noexcept = default;
    explicit Handle(H *handle) noexcept : handle_(handle) {}
    H *get() const noexcept { return handle_.get(); }
    H *release() noexcept { return handle_.release(); }
    explicit operator bool() const noexcept { return handle_ != nullptr; }

private:
    struct Deleter {
        void operator()(H *handle) const noexcept { Free(handle); }
    };
    std::unique_ptr<H, Deleter> handle_;
};

namespace detail {

template <class H, class F> H *made(F &&make)
{
    H *out = nullptr;

    check(make(&out));
    return out;
}

inline std::string taken(char *text)
{
    std::unique_ptr<char, void (*)(void *)> own(text, std::free);

    return text ? text : "";
}

/* A callable for a callback of C.  What it throws is kept, and thrown again when the call has returned. */
template <class F> struct Callback {
    F &call;
    std::exception_ptr thrown;

    template <class Body> dpx_status run(Body &&body) noexcept
    {
        try {
            body();
            return DPX_OK;
        } catch (...) {
            thrown = std::current_exception();
            return DPX_INTERRUPTED;
        }
    }
    void check(dpx_status status) const
    {
        if (thrown)
            std::rethrow_exception(thrown);
        dpexec::check(status);
    }
};

} // namespace detail

/* Receives the bytes of a model or checkpoint, in pieces. */
using Sink = std::function<void(Span<const char>)>;
/* Fills a part of the span with bytes, and returns their number; 0: the end. */
using Source = std::function<std::size_t(Span<char>)>;

class World : public Handle<dpx_world, dpx_world_leave> {
public:
    explicit World(const dpx_world_options &options)
        : Handle(detail::made<dpx_world>([&](dpx_world **out) { return dpx_world_join(out, &options); }))
    {}
    int size() const noexcept { return dpx_world_size(get()); }
    int rank() const noexcept { return dpx_world_rank(get()); }
    void note(const char *name, const char *value) { check(dpx_world_note(get(), name, value)); }
    void agree() { check(dpx_world_agree(get())); }
    void share(int root, Span<char> bytes) { check(dpx_world_share(get(), root, bytes.data(), bytes.size())); }
};

class Options : public Handle<dpx_options, dpx_options_free> {
public:
    Options() : Handle(dpx_options_create())
    {
        if (!get())
            throw Error(DPX_NOMEM, "no memory for options");
    }
    explicit Options(dpx_options *options) noexcept : Handle(options) {}
    Options copy() const
    {
        return Options(detail::made<dpx_options>([&](dpx_options **out) { return dpx_options_copy(out, get()); }));
    }
    Options &set(const char *name, const std::string &value)
    {
        check(dpx_options_set(get(), name, value.c_str()));
        return *this;
    }
    const char *get_value(const char *name) const noexcept { return dpx_options_get(get(), name); }
    void check_all() const { check(dpx_options_check(get())); }
    void set_class_weights(const dpx_tensor &weights) { check(dpx_options_set_class_weights(get(), &weights)); }
    void set_target_shape(const dpx_tensor &target) { check(dpx_options_set_target_shape(get(), &target)); }
    void set_role(const char *input, int role) { check(dpx_options_set_role(get(), input, role)); }
    void set_operators(dpx_operators *operators) { check(dpx_options_set_operators(get(), operators)); }
    void set_world(const World &world) noexcept { dpx_options_set_world(get(), world.get()); }
};

class Model : public Handle<dpx_model, dpx_model_free> {
public:
    explicit Model(dpx_model *model) noexcept : Handle(model) {}
    explicit Model(const std::string &path)
        : Handle(detail::made<dpx_model>([&](dpx_model **out) { return dpx_model_load(out, path.c_str()); }))
    {}
    Model(const std::string &path, const Options &options)
        : Handle(detail::made<dpx_model>(
              [&](dpx_model **out) { return dpx_model_load_within(out, path.c_str(), options.get()); }))
    {}
    Model(Span<const char> bytes, const char *name, const Options &options)
        : Handle(detail::made<dpx_model>([&](dpx_model **out) {
              return dpx_model_load_memory(out, bytes.data(), bytes.size(), name, options.get(), nullptr, nullptr);
          }))
    {}
    int count(dpx_kind kind) const noexcept { return dpx_model_count(get(), kind); }
    dpx_info info(dpx_kind kind, int index) const
    {
        dpx_info out;
        check(dpx_model_info(get(), kind, index, &out));
        return out;
    }
    const char *metadata(const char *key) const noexcept { return dpx_model_metadata(get(), key); }
    void set_metadata(const char *key, const char *value) { check(dpx_model_set_metadata(get(), key, value)); }
    Model gradient(const Options &options, const char *of, const char *with_respect_to) const
    {
        return Model(detail::made<dpx_model>([&](dpx_model **out) {
            return dpx_model_gradient(out, get(), options.get(), of, with_respect_to);
        }));
    }
    std::string transform(const Options &options, const char *until, const char *format) const
    {
        std::string text;
        detail::Callback<std::string> c{ text, nullptr };
        c.check(dpx_transform(
            get(), options.get(), until, format,
            [](void *user, const char *piece, std::size_t n) {
                auto *to = static_cast<detail::Callback<std::string> *>(user);
                (void)to->run([&] { to->call.append(piece, n); });
            },
            &c));
        return text;
    }
};

/* Data of any structure; dpexec.h makes lists, maps and containers of it. */
class Data : public Handle<dpx_data, dpx_data_free> {
public:
    explicit Data(dpx_data *data) noexcept : Handle(data) {}
    explicit Data(const dpx_tensor &tensor)
        : Handle(detail::made<dpx_data>([&](dpx_data **out) { return dpx_data_tensor(out, &tensor); }))
    {}
    int count() const noexcept { return dpx_data_count(get()); }
    const char *key(int index) const noexcept { return dpx_data_key(get(), index); }
    /* The tensor of a map's member; valid as long as this. */
    dpx_tensor view(const char *key) const { return view_of(dpx_data_find(get(), key)); }
    dpx_tensor view(int index) const { return view_of(dpx_data_at(get(), index)); }
    dpx_tensor view() const { return view_of(get()); }

private:
    static dpx_tensor view_of(const dpx_data *data)
    {
        dpx_tensor out;
        check(dpx_data_view(data, &out));
        return out;
    }
};

class Trainer : public Handle<dpx_trainer, dpx_trainer_free> {
public:
    using Batch = Span<const dpx_tensor>;

    Trainer(const Model &model, const Options &options, dpx_log_fn *log = nullptr, void *user = nullptr)
        : Handle(detail::made<dpx_trainer>([&](dpx_trainer **out) {
              return dpx_trainer_create(out, model.get(), options.get(), log, user);
          }))
    {}

    /* ---- steps ---- */
    dpx_result train_step(Batch b) { return give(dpx_train_step, b.data(), b.count()); }
    dpx_result val_step(Batch b) { return give(dpx_val_step, b.data(), b.count()); }
    dpx_result test_step(Batch b) { return give(dpx_test_step, b.data(), b.count()); }
    dpx_result train_part(std::int64_t samples, Batch b) { return give(dpx_train_part, samples, b.data(), b.count()); }
    dpx_result val_part(std::int64_t samples, Batch b) { return give(dpx_val_part, samples, b.data(), b.count()); }
    dpx_result test_part(std::int64_t samples, Batch b) { return give(dpx_test_part, samples, b.data(), b.count()); }
    dpx_result train_flush() { return give(dpx_train_flush); }
    dpx_result backward(Batch b) { return give(dpx_train_backward, b.data(), b.count()); }
    dpx_result backward_part(std::int64_t samples, Batch b)
    {
        return give(dpx_train_backward_part, samples, b.data(), b.count());
    }
    dpx_result update() { return give(dpx_train_update); }
    void reset() { check(dpx_train_reset(get())); }
    void close_group() { check(dpx_trainer_close_group(get())); }
    void end_epoch() { check(dpx_trainer_end_epoch(get())); }
    void observe(double loss, double metric) { check(dpx_trainer_observe(get(), loss, metric)); }
    void keep(unsigned what) { check(dpx_trainer_keep(get(), what)); }
    void gradient(const char *parameter, const dpx_tensor &out) { check(dpx_trainer_gradient(get(), parameter, &out)); }
    void set_lr(int group, double lr) { check(dpx_trainer_set_lr(get(), group, lr)); }
    dpx_part part(std::int64_t samples) const
    {
        dpx_part out;
        check(dpx_trainer_part(get(), samples, &out));
        return out;
    }
    dpx_metric metric(int index = 0) const
    {
        dpx_metric out;
        check(dpx_trainer_metric_at(get(), index, &out));
        return out;
    }
    dpx_metric train_metric(int index = 0) const
    {
        dpx_metric out;
        check(dpx_trainer_train_metric_at(get(), index, &out));
        return out;
    }
    void restart_metric() noexcept { dpx_trainer_restart_metric(get()); }
    void restart_train_metric() noexcept { dpx_trainer_restart_train_metric(get()); }

    /* One tensor for each of `n` outputs; the trainer owns the data, until its next call. */
    std::vector<dpx_tensor> run(Batch inputs, int n)
    {
        std::vector<dpx_tensor> out(static_cast<std::size_t>(n));
        check(dpx_run(get(), inputs.data(), inputs.count(), out.data(), n));
        return out;
    }

    /* ---- state ---- */
    int state_count() const noexcept { return dpx_trainer_state_count(get()); }
    dpx_info state_info(int index) const
    {
        dpx_info out;
        check(dpx_trainer_state_info(get(), index, &out));
        return out;
    }
    void get_state(const char *name, const dpx_tensor &out) { check(dpx_trainer_get_state(get(), name, &out)); }
    void set_state(const char *name, const dpx_tensor &in) { check(dpx_trainer_set_state(get(), name, &in)); }
    std::int64_t step_count() const noexcept { return dpx_trainer_step_count(get()); }
    int replicas() const noexcept { return dpx_trainer_replicas(get()); }

    /* ---- files and streams; the notes are those that were saved ---- */
    void save(const std::string &directory, const char *note = nullptr)
    {
        check(dpx_trainer_save(get(), directory.c_str(), note));
    }
    std::string resume(const std::string &directory)
    {
        char *note = nullptr;
        check(dpx_trainer_resume(get(), directory.c_str(), &note));
        return detail::taken(note);
    }
    std::string resume_step(const std::string &directory, std::int64_t step)
    {
        char *note = nullptr;
        check(dpx_trainer_resume_step(get(), directory.c_str(), step, &note));
        return detail::taken(note);
    }
    void export_to_file(const std::string &path) { check(dpx_trainer_export(get(), path.c_str())); }
    void export_to(const Sink &write)
    {
        detail::Callback<const Sink> c{ write, nullptr };
        c.check(dpx_trainer_export_to(get(), sink, &c));
    }
    void save_to(const Sink &write, const char *note = nullptr)
    {
        detail::Callback<const Sink> c{ write, nullptr };
        c.check(dpx_trainer_save_to(get(), sink, &c, note));
    }
    std::string load_from(const Source &read)
    {
        detail::Callback<const Source> c{ read, nullptr };
        char *note = nullptr;
        c.check(dpx_trainer_load_from(get(), source, &c, &note));
        return detail::taken(note);
    }

private:
    template <class... P, class... A> dpx_result give(dpx_status (*step)(dpx_trainer *, P...), A... arguments)
    {
        dpx_result out;
        check(step(get(), arguments..., &out));
        return out;
    }
    static dpx_status sink(void *user, const void *bytes, std::size_t n)
    {
        auto *c = static_cast<detail::Callback<const Sink> *>(user);
        return c->run([&] { c->call({ static_cast<const char *>(bytes), n }); });
    }
    static dpx_status source(void *user, void *to, std::size_t room, std::size_t *n)
    {
        auto *c = static_cast<detail::Callback<const Source> *>(user);
        return c->run([&] { *n = c->call({ static_cast<char *>(to), room }); });
    }
};

class Predictor : public Handle<dpx_predictor, dpx_predictor_free> {
public:
    Predictor(const Model &model, const Options &options)
        : Handle(detail::made<dpx_predictor>([&](dpx_predictor **out) {
              return dpx_predictor_create(out, model.get(), nullptr, options.get());
          }))
    {}
    explicit Predictor(Trainer &trainer)
        : Handle(detail::made<dpx_predictor>([&](dpx_predictor **out) {
              return dpx_predictor_create(out, nullptr, trainer.get(), nullptr);
          }))
    {}
    void take(Trainer &trainer) { check(dpx_predictor_take(get(), trainer.get())); }
    void warm(int callers, Span<const dpx_tensor> inputs)
    {
        check(dpx_predictor_warm(get(), callers, inputs.data(), inputs.count()));
    }
    Data predict(Span<const dpx_tensor> inputs) const
    {
        return Data(detail::made<dpx_data>(
            [&](dpx_data **out) { return dpx_predict(get(), inputs.data(), inputs.count(), out); }));
    }
};

} // namespace dpexec

#endif
