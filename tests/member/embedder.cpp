/* A program of tests/cli/embed.sh: trains and predicts by dpexec.hpp and by dpexec.h, and compares the bytes; then what
 * the wrapper does besides: exceptions with message and status, also those thrown in callbacks, and moves. */
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <dpexec.hpp>
#include <vector>

namespace
{

constexpr int SAMPLES = 4, PIXELS = 64, CLASSES = 10, STEPS = 5;
int failures;

void expect(bool holds, const char *what)
{
    if (!holds)
        std::fprintf(stderr, "FAILED: %s\n", what);
    failures += !holds;
}

struct Batch {
    std::vector<float> x = std::vector<float>(SAMPLES * PIXELS);
    std::array<std::int64_t, SAMPLES> label{ { 1, 2, 3, 4 } };

    Batch()
    {
        for (int k = 0; k < SAMPLES * PIXELS; k++)
            x[static_cast<std::size_t>(k)] = static_cast<float>(k * 37 % 101) / 101;
    }
};

/* Everything that a training gives, as bytes. */
std::string by_c(const char *path)
{
    Batch b;
    const dpx_tensor batch[] = { { "x", DPX_FLOAT32, 2, { SAMPLES, PIXELS }, b.x.data() },
                                 { "target", DPX_INT64, 1, { SAMPLES }, b.label.data() } };
    dpx_options *options = dpx_options_create();
    dpx_model *model = nullptr;
    dpx_trainer *trainer = nullptr;
    dpx_predictor *predictor = nullptr;
    dpx_data *outputs = nullptr;
    dpx_tensor logits{};
    dpx_result r{};
    std::string bytes;
    bool ok = !dpx_options_set(options, "loss", "cross-entropy") && !dpx_model_load_within(&model, path, options) &&
              !dpx_trainer_create(&trainer, model, options, nullptr, nullptr);

    for (int k = 0; ok && k < STEPS; k++) {
        ok = !dpx_train_step(trainer, batch, 2, &r);
        bytes.append(reinterpret_cast<const char *>(&r.loss), sizeof r.loss);
    }
    ok = ok && !dpx_trainer_export_to(
                   trainer,
                   [](void *user, const void *piece, std::size_t n) {
                       static_cast<std::string *>(user)->append(static_cast<const char *>(piece), n);
                       return DPX_OK;
                   },
                   &bytes);
    ok = ok && !dpx_predictor_create(&predictor, nullptr, trainer, nullptr) &&
         !dpx_predict(predictor, batch, 1, &outputs) && !dpx_data_view(dpx_data_find(outputs, "logits"), &logits);
    expect(ok, dpx_error());
    if (ok)
        bytes.append(static_cast<const char *>(logits.data), SAMPLES * CLASSES * sizeof(float));
    dpx_data_free(outputs);
    dpx_predictor_free(predictor);
    dpx_trainer_free(trainer);
    dpx_model_free(model);
    dpx_options_free(options);
    return bytes;
}

std::string by_cpp(const char *path)
{
    Batch b;
    const dpx_tensor x = dpexec::tensor("x", { SAMPLES, PIXELS }, b.x);
    const dpx_tensor target = dpexec::tensor("target", { SAMPLES }, b.label);
    dpexec::Options options;
    options.set("loss", "cross-entropy");
    dpexec::Model model(path, options);
    dpexec::Trainer made(model, options), trainer(std::move(made));
    std::string bytes;

    expect(!made && trainer, "a moved handle is empty");
    for (int k = 0; k < STEPS; k++) {
        const dpx_result r = trainer.train_step({ x, target });
        bytes.append(reinterpret_cast<const char *>(&r.loss), sizeof r.loss);
    }
    trainer.export_to([&](dpexec::Span<const char> piece) { bytes.append(piece.data(), piece.size()); });
    const dpexec::Predictor predictor(trainer);
    const dpexec::Data outputs = predictor.predict({ x });
    for (float score : dpexec::elements<float>(outputs.view("logits")))
        bytes.append(reinterpret_cast<const char *>(&score), sizeof score);
    return bytes;
}

template <class F> void fails(dpx_status status, const char *text, F &&call)
{
    try {
        call();
        expect(false, text);
    } catch (const dpexec::Error &e) {
        expect(e.status() == status && std::strstr(e.what(), text) != nullptr, e.what());
    }
}

void check_errors(const char *path)
{
    Batch b;
    dpexec::Options options;
    options.set("loss", "cross-entropy");
    dpexec::Model model(path, options);
    dpexec::Trainer trainer(model, options), other(model, options);
    std::vector<float> gradient(CLASSES);
    std::string kept;
    std::size_t at = 0;
    const auto read = [&](dpexec::Span<char> to) {
        const std::size_t n = std::min(to.size(), kept.size() - at);
        std::memcpy(to.data(), kept.data() + at, n);
        at += n;
        return n;
    };

    fails(DPX_IO, "no-such-file.onnx", [] { dpexec::Model("no-such-file.onnx"); });
    fails(DPX_INVALID, "no-such-option", [&] { options.set("no-such-option", "1"); });
    fails(DPX_INVALID, "no gradients", [&] { trainer.update(); });
    try {
        dpexec::tensor("x", { SAMPLES, PIXELS + 1 }, b.x);
        expect(false, "a shape that does not fit is refused");
    } catch (const std::length_error &) {
    }
    trainer.backward({ dpexec::tensor("x", { SAMPLES, PIXELS }, b.x), dpexec::tensor("target", { SAMPLES }, b.label) });
    trainer.gradient("fc3.bias", dpexec::tensor(nullptr, { CLASSES }, gradient));
    expect(gradient[0] > 0, "a class that no sample has is pushed down");
    trainer.set_lr(0, 0.5);
    expect(trainer.update().lr == 0.5, "the learning rate that was set");
    try {
        trainer.save_to([](dpexec::Span<const char>) { throw std::string("thrown in a callback"); });
        expect(false, "an exception of a callback goes through");
    } catch (const std::string &text) {
        expect(text == "thrown in a callback", "the exception is the callback's");
    }
    trainer.save_to([&](dpexec::Span<const char> piece) { kept.append(piece.data(), piece.size()); }, "a note");
    expect(other.load_from(read) == "a note" && other.step_count() == 1, "a checkpoint goes to another trainer");
    options.set("batch-size", "4");
    expect(model.transform(options, nullptr, "txt").size() > 1000, "the training graph as text");
    expect(model.info(DPX_INPUT, 0).name == std::string("x"), "the model's input");
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    try {
        const std::string c = by_c(argv[1]), cpp = by_cpp(argv[1]);
        expect(c.size() > 1000 && c == cpp, "the bytes are those of the C API");
        check_errors(argv[1]);
        std::printf("%zu bytes\n", cpp.size());
    } catch (const std::exception &e) {
        expect(false, e.what());
    }
    return failures ? 1 : 0;
}
