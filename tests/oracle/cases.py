"""The cases: a model, a data set and the options of dpexec, as keyword arguments spelled like its flags."""
DATA = "tests/oracle/data"
CASES = {}


def case(name, model, data, sample=1, **options):
    """`sample`: of tensors of more than 4096 elements every sample-th element is stored."""
    where = "models" if model in MODELS else DATA
    CASES[name] = {"model": f"{where}/{model}.onnx", "data": f"{DATA}/{data}.npz", "sample": sample, "options": options}


MODELS = {  # data, batch size, lr of SGD, lr of AdamW, sampling of the weights after SGD and AdamW
    "mlp": ("digits", 10, 0.01, 1e-3, 1, 1),
    "fashion_cnn": ("fashion", 16, 0.005, 2e-4, 1, 1),
    "resnet20": ("images32", 11, 0.003, 7e-5, 3, 17),
    "transformer": ("text", 8, 0.05, 3e-4, 7, 17),
    "unet": ("masks", 4, 0.002, 1e-4, 1, 1),
    "exported_mobilenet": ("images32", 11, 5e-4, 5e-5, 1, 1),
    "exported_encoder": ("images32", 11, 0.003, 5e-4, 3, 7),
    "exported_folded": ("images32", 11, 0.005, 1e-3, 1, 7),
}
for model, (data, batch, lr, adam_lr, sample, adam_sample) in MODELS.items():
    shared = dict(loss="cross-entropy", batch_size=batch)
    case(f"{model}-sgd", model, data, sample, **shared, optimizer="sgd", lr=lr, momentum=0.9)
    case(f"{model}-adamw", model, data, adam_sample, **shared, optimizer="adamw", lr=adam_lr, weight_decay=0.01)


def mlp(name, data="digits", model="mlp", **options):
    base = dict(loss="cross-entropy", optimizer="sgd", lr=0.01, momentum=0.9, batch_size=10)
    case(name, model, data, 7, **{**base, **options})


# optimizers
mlp("sgd-plain", momentum=0.0)
mlp("sgd-nesterov", nesterov=True)
mlp("sgd-weight-decay", weight_decay=0.01)
mlp("adam", optimizer="adam", lr=1e-3, momentum=None)
mlp("adam-options", optimizer="adam", lr=1e-3, momentum=None, beta1=0.8, beta2=0.95, eps=1e-6, weight_decay=0.01)
mlp("adamw-options", optimizer="adamw", lr=1e-3, momentum=None, beta1=0.8, beta2=0.95, eps=1e-6, weight_decay=0.1)

# learning rates
mlp("lr-step", lr_schedule="step:7:0.5")
mlp("lr-cosine", lr_schedule="cosine")
mlp("lr-linear", lr_schedule="linear")
mlp("lr-constant-warmup", lr_schedule="constant", warmup_steps=5)
mlp("lr-step-warmup", lr_schedule="step:7:0.5", warmup_steps=5)
mlp("lr-cosine-warmup", lr_schedule="cosine", warmup_steps=5)
mlp("lr-linear-warmup", lr_schedule="linear", warmup_steps=5)

# steps
mlp("clip-norm", clip_norm=0.5)
mlp("accumulate", accumulate=3, batch_size=8)                                    # 8 8 8 | 8 8 3
mlp("accumulate-incomplete", accumulate=4, batch_size=8)                         # 8 8 8 8 | 8 3
mlp("accumulate-ignore", "digits_ignored", accumulate=3, batch_size=8, ignore_index=-1, momentum=0.0)
mlp("accumulate-clip", accumulate=3, batch_size=8, clip_norm=0.5)
case("fashion_cnn-accumulate", "fashion_cnn", "fashion", loss="cross-entropy", optimizer="sgd", lr=0.005, momentum=0.9,
     batch_size=8, accumulate=3)
case("fashion_cnn-unbiased", "fashion_cnn", "fashion", loss="cross-entropy", optimizer="sgd", lr=0.005, momentum=0.9,
     batch_size=16, bn_variance="unbiased")

# cross-entropy
WEIGHTS = f"{DATA}/class_weights_%d.npy"
mlp("ignore-index", "digits_ignored", ignore_index=-1)
mlp("ignore-class", ignore_index=3)
mlp("class-weights", class_weights=WEIGHTS % 10)
mlp("class-weights-ignore", "digits_ignored", class_weights=WEIGHTS % 10, ignore_index=-1)
mlp("label-smoothing", label_smoothing=0.1)
mlp("label-smoothing-all", "digits_ignored", label_smoothing=0.1, class_weights=WEIGHTS % 10, ignore_index=-1)
case("unet-class-weights", "unet", "masks", 17, loss="cross-entropy", optimizer="sgd", lr=0.001, momentum=0.9,
     batch_size=4, class_weights=WEIGHTS % 2)
case("transformer-ignore-smoothing", "transformer", "text", 67, loss="cross-entropy", optimizer="sgd", lr=0.05,
     momentum=0.9, batch_size=8, ignore_index=32, label_smoothing=0.1)

# other losses
mlp("mse", "regression", loss="mse")
mlp("l1", "regression", loss="l1")
mlp("bce-logits", "multilabel", loss="bce-logits")
mlp("bce", "multilabel", "mlp_sigmoid", loss="bce")
mlp("nll", "digits", "mlp_logsoftmax", loss="nll")
mlp("output", "digits_labels", "mlp_loss", loss="output:loss")
