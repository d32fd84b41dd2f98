"""Architectures of transformers, timm, torchvision, diffusers, monai and PyG, built from configuration as small as they go, drop rates 0.

`tests/networks/run.sh --subset libraries` trains them.  A library is imported where one of its networks is built.
"""
import importlib

import torch
from torch import nn

import nets
from nets import CLASSES, SAMPLES, Net, images, masks

VOCABULARY, LENGTH = 40, 10
WIDTH = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)
TEXT = dict(WIDTH, vocab_size=VOCABULARY, max_position_embeddings=32, pad_token_id=0, bos_token_id=1, eos_token_id=2)
CLASSED = dict(num_labels=CLASSES)
RATES = ("p", "drop_prob", "dropout", "attention_dropout", "activation_dropout", "dropout_p", "layerdrop", "attn_drop", "dropout_rate",
         "classifier_dropout", "p_dropout", "drop_path_prob", "proj_drop", "attn_dropout_prob",
         "drop_rate", "dropout_prob")


class Of1(nn.Module):
    """Calls a model with its inputs by name and answers with one of its outputs."""

    def __init__(self, model, inputs, output, fixed):
        super().__init__()
        self.model, self.inputs, self.output, self.fixed = model, inputs, output, fixed

    def answer(self, *given):
        out = self.model(**dict(zip(self.inputs, given)), **self.fixed) if self.inputs else self.model(*given, **self.fixed)
        if callable(self.output):
            return self.output(out)
        return out if self.output is None else out[self.output]

    def forward(self, a):
        return self.answer(a)


class Of2(Of1):
    def forward(self, a, b):
        return self.answer(a, b)


class Of3(Of1):
    def forward(self, a, b, c):
        return self.answer(a, b, c)


def still(net):
    """Sets every drop rate of a network to 0: dropout of values, of attention and of whole layers."""
    for m in net.modules():
        for rate in RATES:
            if isinstance(getattr(m, rate, None), float):
                setattr(m, rate, 0.0)
        config = getattr(m, "config", None)
        for key in list(vars(config) if hasattr(config, "__dict__") else ()):
            if ("drop" in key or key.endswith("_p")) and isinstance(getattr(config, key), float):
                setattr(config, key, 0.0)
    return net


def wrapped(model, inputs, output, fixed):
    return still((Of1, Of2, Of3)[max(len(inputs) - 1, 0)](model, inputs, output, fixed))


# ---- data ----

def ids(length=LENGTH, labels=CLASSES):
    """Token numbers and a class; none of them is padding."""
    def make(g):
        return {"ids": torch.randint(3, VOCABULARY, (SAMPLES, length), generator=g), "target": torch.randint(labels, (SAMPLES,), generator=g)}
    return make


def masked(g):
    n = torch.randint(4, LENGTH + 1, (SAMPLES, 1), generator=g)
    mask = (torch.arange(LENGTH)[None] < n).long()
    return {"ids": ids()(g)["ids"] * mask, "mask": mask, "target": torch.randint(CLASSES, (SAMPLES,), generator=g)}


def following(length=LENGTH):
    """Token numbers, and the token that follows each."""
    def make(g):
        x = torch.randint(3, VOCABULARY, (SAMPLES, length + 1), generator=g)
        return {"ids": x[:, :-1].contiguous(), "target": x[:, 1:].contiguous()}
    return make


def translated(g):
    """Token numbers of one language, and of another so far, and what follows."""
    words = following(8)(g)
    return {"ids": ids()(g)["ids"], "said": words["ids"], "target": words["target"]}


def heard(*shape):
    """Sounds or features of them, what was said so far, and what follows."""
    def make(g):
        words = following(8)(g)
        return {"heard": torch.randn(SAMPLES, *shape, generator=g), "said": words["ids"], "target": words["target"]}
    return make


def labelled(g):
    """Images, and a class for each four by four pixels."""
    return {"x": torch.randn(SAMPLES, 3, 64, 64, generator=g), "target": torch.randint(4, (SAMPLES, 16, 16), generator=g)}


def classed(*shape, labels=CLASSES):
    def make(g):
        return {"x": torch.randn(SAMPLES, *shape, generator=g), "target": torch.randint(labels, (SAMPLES,), generator=g)}
    return make


def regressed(shape, wanted):
    def make(g):
        return {"x": torch.randn(SAMPLES, *shape, generator=g), "target": torch.randn(SAMPLES, *wanted, generator=g)}
    return make


def graph(nodes=7, width=6):
    """Nodes with their features, a symmetric matrix of their edges, and a class, for each sample."""
    def make(g):
        edges = (torch.rand(SAMPLES, nodes, nodes, generator=g) < 0.4).float()
        return {"x": torch.randn(SAMPLES, nodes, width, generator=g), "edges": torch.maximum(edges, edges.transpose(1, 2)),
                "target": torch.randint(CLASSES, (SAMPLES,), generator=g)}
    return make


def denoised(*shape, more=None):
    """Noised samples, how far the noise has come, more that the network is told, and the noise."""
    def make(g):
        data = {"x": torch.randn(SAMPLES, *shape, generator=g), "step": torch.randint(1000, (SAMPLES,), generator=g)}
        if more:
            data["told"] = torch.randn(SAMPLES, *more, generator=g) if isinstance(more, tuple) else torch.randint(more, (SAMPLES,), generator=g)
        return data | {"target": torch.randn(SAMPLES, *shape, generator=g)}
    return make


# ---- builders ----

def hf(cls, inputs=("input_ids",), output="logits", fixed=(), **config):
    """A model of transformers, by the name of its class."""
    def build():
        made = getattr(importlib.import_module("transformers"), cls)
        return wrapped(made._from_config(made.config_class(**config), attn_implementation="eager"), inputs, output, dict(fixed))
    return build


def lm(cls, **config):
    return hf(cls, fixed={"use_cache": False}, **{**TEXT, **config})


def of(module, cls, *args, inputs=(), output=None, fixed=(), n=1, **kw):
    """Any other class or function of a package; `inputs` by name, or `n` of them by place."""
    def build():
        made = getattr(importlib.import_module(module), cls)(*args, **kw)
        return still((Of1, Of2, Of3)[(len(inputs) or n) - 1](made, inputs, output, dict(fixed)))
    return build


def timm(name, **kw):
    return of("timm", "create_model", name, num_classes=CLASSES, **kw)


def narrowed(build, by):
    def make():
        with nets.narrow(by):
            return build()
    return make


class Detector(nn.Module):
    """The parts of torchvision's detectors that are trained on whole images: a pyramid of features and the heads over it."""

    def __init__(self, head):
        super().__init__()
        ops, detection = importlib.import_module("torchvision.ops"), importlib.import_module("torchvision.models.detection")
        self.stem = nn.ModuleList([nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.BatchNorm2d(b), nn.ReLU()) for a, b in ((3, 8), (8, 12), (12, 16))])
        self.pyramid = ops.FeaturePyramidNetwork([8, 12, 16], 32)
        self.head = {"rpn": lambda: detection.rpn.RPNHead(32, 3), "retina": lambda: detection.retinanet.RetinaNetHead(32, 3, 5),
                     "fcos": lambda: detection.fcos.FCOSHead(32, 3, 5)}[head]()
        self.kind = head

    def forward(self, image):
        found = {}
        for k, part in enumerate(self.stem):
            image = part(image)
            found[str(k)] = image
        features = list(self.pyramid(found).values())
        out = self.head(features)
        rows = [f.flatten(1).mean(1, keepdim=True) for f in (sum(out, []) if self.kind == "rpn" else out.values())]
        return torch.cat(rows, 1)


class DenseGraph(nn.Module):
    """Two layers of PyG for graphs as matrices, and a class for the whole graph."""

    def __init__(self, layer, **kw):
        super().__init__()
        dense = importlib.import_module("torch_geometric.nn.dense")
        made = getattr(dense, layer)
        if layer == "DenseGINConv":
            self.first, self.second = made(nn.Linear(6, 16)), made(nn.Linear(16, 16))
        else:
            self.first, self.second = made(6, 16, **kw), made(16, 16, **kw)
        self.last = nn.Linear(16, CLASSES)

    def forward(self, x, edges):
        x = torch.relu(self.first(x, edges))
        return self.last(torch.relu(self.second(x, edges)).mean(1))


class Pooled(nn.Module):
    """A graph's nodes gathered into fewer by dense_diff_pool."""

    def __init__(self):
        super().__init__()
        dense = importlib.import_module("torch_geometric.nn.dense")
        self.pool, self.share = dense.dense_diff_pool, dense.DenseSAGEConv(6, 3)
        self.embed, self.last = dense.DenseSAGEConv(6, 16), nn.Linear(16, CLASSES)

    def forward(self, x, edges):
        x, edges, *_ = self.pool(torch.relu(self.embed(x, edges)), edges, self.share(x, edges))
        return self.last((edges @ x).mean(1))


AXIS = ("--class-axis", "2")
ROT = dict(num_key_value_heads=2, head_dim=8)
IMAGE = dict(WIDTH, image_size=32, patch_size=8, **CLASSED)
ENCDEC = dict(vocab_size=VOCABULARY, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
              encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=32, pad_token_id=0, bos_token_id=1, eos_token_id=2,
              decoder_start_token_id=2, forced_eos_token_id=2)
SAID = dict(inputs=("input_ids", "decoder_input_ids"), fixed={"use_cache": False})
T5 = dict(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0)
SPEECH = dict(WIDTH, conv_dim=(12, 12, 12), conv_stride=(4, 2, 2), conv_kernel=(8, 3, 3), num_feat_extract_layers=3, num_conv_pos_embeddings=8,
              num_conv_pos_embedding_groups=4, mask_time_prob=0.0, mask_feature_prob=0.0, apply_spec_augment=False, classifier_proj_size=16, **CLASSED)
VISION = dict(num_channels=3, **CLASSED)
UNET = dict(sample_size=16, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
            up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=4)

NETS = {n.name: n for n in [
    # encoders of text
    Net("hf_bert", hf("BertForSequenceClassification", ("input_ids", "attention_mask"), **TEXT, **CLASSED), masked),
    Net("hf_roberta", hf("RobertaForSequenceClassification", ("input_ids", "attention_mask"), **TEXT, **CLASSED), masked),
    Net("hf_distilbert", hf("DistilBertForSequenceClassification", ("input_ids", "attention_mask"), vocab_size=VOCABULARY, dim=32, hidden_dim=48,
                            n_layers=2, n_heads=4, max_position_embeddings=32, **CLASSED), masked),
    Net("hf_albert", hf("AlbertForSequenceClassification", ("input_ids", "attention_mask"), embedding_size=16, **TEXT, **CLASSED), masked),
    Net("hf_electra", hf("ElectraForSequenceClassification", ("input_ids", "attention_mask"), embedding_size=16, **TEXT, **CLASSED), masked),
    Net("hf_deberta_v2", hf("DebertaV2ForSequenceClassification", relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8,
                            norm_rel_ebd="layer_norm", share_att_key=True, **TEXT, **CLASSED), ids()),
    Net("hf_mpnet", hf("MPNetForSequenceClassification", ("input_ids", "attention_mask"), **TEXT, **CLASSED), masked),
    Net("hf_convbert", hf("ConvBertForSequenceClassification", embedding_size=32, conv_kernel_size=3, **TEXT, **CLASSED), ids()),
    Net("hf_squeezebert", hf("SqueezeBertForSequenceClassification", embedding_size=32, **TEXT, **CLASSED), ids()),
    Net("hf_mobilebert", hf("MobileBertForSequenceClassification", **{**TEXT, "intermediate_size": 48}, embedding_size=16,
                            intra_bottleneck_size=16, true_hidden_size=16, **CLASSED), ids()),
    Net("hf_fnet", hf("FNetForSequenceClassification", **TEXT, **CLASSED), ids()),
    Net("hf_modernbert", hf("ModernBertForSequenceClassification", ("input_ids", "attention_mask"), cls_token_id=1, sep_token_id=2,
                            local_attention=4, **TEXT, **CLASSED), masked),
    Net("hf_esm", hf("EsmForSequenceClassification", position_embedding_type="rotary", token_dropout=False, **TEXT, **CLASSED), ids()),
    Net("hf_roformer", hf("RoFormerForSequenceClassification", embedding_size=32, **TEXT, **CLASSED), ids()),
    Net("hf_nystromformer", hf("NystromformerForSequenceClassification", num_landmarks=2, segment_means_seq_len=8, conv_kernel_size=3, **TEXT, **CLASSED), ids(8)),
    Net("hf_funnel", hf("FunnelForSequenceClassification", vocab_size=VOCABULARY, block_sizes=[1, 1], num_decoder_layers=1, d_model=32, n_head=4,
                        d_head=8, d_inner=48, **CLASSED), ids(8)),
    # decoders
    Net("hf_gpt2", lm("GPT2LMHeadModel"), following(), flags=AXIS),
    Net("hf_gpt_neo", lm("GPTNeoForCausalLM", hidden_size=32, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], window_size=4),
        following(), flags=AXIS),
    Net("hf_gpt_neox", lm("GPTNeoXForCausalLM"), following(), flags=AXIS),
    Net("hf_gptj", lm("GPTJForCausalLM", n_embd=32, n_layer=2, n_head=4, rotary_dim=4, n_positions=32), following(), flags=AXIS),
    Net("hf_opt", lm("OPTForCausalLM", ffn_dim=48, word_embed_proj_dim=32), following(), flags=AXIS),
    Net("hf_bloom", lm("BloomForCausalLM", n_layer=2, n_head=4), following(), flags=AXIS),
    Net("hf_mpt", hf("MptForCausalLM", fixed={"use_cache": False}, d_model=32, n_heads=4, n_layers=2, expansion_ratio=2, max_seq_len=32,
                     vocab_size=VOCABULARY), following(), flags=AXIS),
    Net("hf_llama", lm("LlamaForCausalLM", **ROT), following(), flags=AXIS),
    Net("hf_qwen3", lm("Qwen3ForCausalLM", **ROT), following(), flags=AXIS),
    Net("hf_gemma2", lm("Gemma2ForCausalLM", query_pre_attn_scalar=8, sliding_window=4, **ROT), following(), flags=AXIS),
    Net("hf_phi", lm("PhiForCausalLM", partial_rotary_factor=0.5), following(), flags=AXIS),
    Net("hf_falcon", lm("FalconForCausalLM", alibi=False, new_decoder_architecture=False), following(), flags=AXIS),
    Net("hf_olmo2", lm("Olmo2ForCausalLM", num_key_value_heads=2), following(), flags=AXIS),
    Net("hf_stablelm", lm("StableLmForCausalLM", num_key_value_heads=2, partial_rotary_factor=0.5, qk_layernorm=True), following(), flags=AXIS),
    Net("hf_cohere", lm("CohereForCausalLM", num_key_value_heads=2, use_qk_norm=False), following(), flags=AXIS),
    Net("hf_imagegpt", hf("ImageGPTForCausalImageModeling", fixed={"use_cache": False}, vocab_size=VOCABULARY + 1, n_positions=32, n_embd=32, n_layer=2,
                          n_head=4), following(), flags=AXIS),
    # encoder-decoders
    Net("hf_t5", hf("T5ForConditionalGeneration", **SAID, **T5), translated, flags=AXIS),
    Net("hf_mt5", hf("MT5ForConditionalGeneration", **SAID, feed_forward_proj="gated-gelu", tie_word_embeddings=False, **T5), translated, flags=AXIS),
    Net("hf_bart", hf("BartForConditionalGeneration", **SAID, **ENCDEC), translated, flags=AXIS),
    Net("hf_marian", hf("MarianMTModel", **SAID, **ENCDEC), translated, flags=AXIS),
    Net("hf_pegasus", hf("PegasusForConditionalGeneration", **SAID, **ENCDEC), translated, flags=AXIS),
    Net("hf_blenderbot", hf("BlenderbotForConditionalGeneration", **SAID, **ENCDEC), translated, flags=AXIS),
    Net("hf_prophetnet", hf("ProphetNetForConditionalGeneration", **SAID, vocab_size=VOCABULARY, hidden_size=32, encoder_ffn_dim=48, num_encoder_layers=1,
                            num_encoder_attention_heads=4, decoder_ffn_dim=48, num_decoder_layers=1, num_decoder_attention_heads=4,
                            max_position_embeddings=32, ngram=2, num_buckets=8, relative_max_distance=16, pad_token_id=0), translated, flags=AXIS),
    # state space and recurrent
    Net("hf_mamba", hf("MambaForCausalLM", fixed={"use_cache": False}, vocab_size=VOCABULARY, hidden_size=16, state_size=4, num_hidden_layers=2,
                       use_mambapy=False), following(6), flags=AXIS),
    Net("hf_mamba2", hf("Mamba2ForCausalLM", fixed={"use_cache": False}, vocab_size=VOCABULARY, hidden_size=16, state_size=4, num_hidden_layers=2,
                        num_heads=4, head_dim=8, n_groups=1, chunk_size=4), following(8), flags=AXIS),
    Net("hf_rwkv", hf("RwkvForCausalLM", fixed={"use_cache": False}, vocab_size=VOCABULARY, hidden_size=16, attention_hidden_size=16,
                      num_hidden_layers=2, context_length=16), following(6), flags=AXIS),
    Net("hf_recurrent_gemma", lm("RecurrentGemmaForCausalLM", block_types=["recurrent", "attention"], lru_width=32, attention_window_size=8,
                                 num_key_value_heads=2), following(6), flags=AXIS),
    # images
    Net("hf_vit", hf("ViTForImageClassification", ("pixel_values",), **IMAGE), images(32)),
    Net("hf_deit", hf("DeiTForImageClassification", ("pixel_values",), **IMAGE), images(32)),
    Net("hf_beit", hf("BeitForImageClassification", ("pixel_values",), use_relative_position_bias=True, **IMAGE), images(32)),
    Net("hf_dinov2", hf("Dinov2ForImageClassification", ("pixel_values",), mlp_ratio=2, **IMAGE), images(32)),
    Net("hf_swinv2", hf("Swinv2ForImageClassification", ("pixel_values",), image_size=32, patch_size=4, embed_dim=16, depths=[1, 2], num_heads=[2, 4],
                        window_size=4, **CLASSED), images(32)),
    Net("hf_convnextv2", hf("ConvNextV2ForImageClassification", ("pixel_values",), hidden_sizes=[8, 12, 16, 24], depths=[1, 1, 1, 1], **VISION), images(64)),
    Net("hf_pvt", hf("PvtForImageClassification", ("pixel_values",), image_size=32, depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32],
                     num_attention_heads=[1, 2, 3, 4], mlp_ratios=[2, 2, 2, 2], **CLASSED), images(32)),
    Net("hf_poolformer", hf("PoolFormerForImageClassification", ("pixel_values",), hidden_sizes=[8, 12, 16, 24], depths=[1, 1, 1, 1], **CLASSED), images(32)),
    Net("hf_mobilevit", hf("MobileViTForImageClassification", ("pixel_values",), image_size=64, hidden_sizes=[16, 24, 32],
                           neck_hidden_sizes=[8, 8, 12, 16, 16, 16, 32], num_attention_heads=2, **CLASSED), images(64)),
    Net("hf_levit", hf("LevitForImageClassification", ("pixel_values",), image_size=64, hidden_sizes=[16, 24, 32], num_attention_heads=[2, 3, 4],
                       key_dim=[4, 4, 4], depths=[1, 1, 1], **CLASSED), images(64)),
    Net("hf_clip_vision", hf("CLIPVisionModelWithProjection", ("pixel_values",), "image_embeds", projection_dim=CLASSES, **WIDTH, image_size=32,
                             patch_size=8), images(32)),
    Net("hf_siglip", hf("SiglipForImageClassification", ("pixel_values",), vision_config=dict(WIDTH, image_size=32, patch_size=8), **CLASSED), images(32)),
    # segmentation, depth, detectors' parts
    Net("hf_segformer", hf("SegformerForSemanticSegmentation", ("pixel_values",), hidden_sizes=[8, 12, 16, 24], depths=[1, 1, 1, 1],
                           num_attention_heads=[1, 2, 2, 2], decoder_hidden_size=16, num_labels=4), labelled),
    Net("hf_yolos", hf("YolosForObjectDetection", ("pixel_values",), output=lambda o: torch.cat([o.logits, o.pred_boxes], 2), num_detection_tokens=5,
                       **{**IMAGE, "image_size": [32, 32]}), regressed((3, 32, 32), (5, CLASSES + 5)), loss="mse"),
    Net("hf_detr", hf("DetrForObjectDetection", ("pixel_values",), output=lambda o: torch.cat([o.logits, o.pred_boxes], 2), num_queries=5, d_model=32,
                      encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48,
                      use_timm_backbone=False, use_pretrained_backbone=False, backbone=None,
                      backbone_config=dict(model_type="resnet", hidden_sizes=[8, 12, 16, 24], depths=[1, 1, 1, 1], embedding_size=8, layer_type="basic",
                                           out_features=["stage4"]), **CLASSED), regressed((3, 64, 64), (5, CLASSES + 5)), loss="mse"),
    Net("tv_rpn", lambda: Detector("rpn"), regressed((3, 32, 32), (6,)), loss="mse"),
    Net("tv_retina", lambda: Detector("retina"), regressed((3, 32, 32), (2,)), loss="mse"),
    Net("tv_fcos", lambda: Detector("fcos"), regressed((3, 32, 32), (3,)), loss="mse"),
    Net("tv_lraspp", narrowed(of("torchvision.models.segmentation", "lraspp_mobilenet_v3_large", output="out", weights=None, weights_backbone=None,
                                 num_classes=4), 4), masks(64)),
    # video
    Net("hf_videomae", hf("VideoMAEForVideoClassification", ("pixel_values",), num_frames=4, tubelet_size=2, **IMAGE), classed(4, 3, 32, 32)),
    Net("hf_timesformer", hf("TimesformerForVideoClassification", ("pixel_values",), num_frames=4, **IMAGE), classed(4, 3, 32, 32)),
    Net("hf_vivit", hf("VivitForVideoClassification", ("pixel_values",), num_frames=4, tubelet_size=[2, 8, 8], **{k: v for k, v in IMAGE.items()
                       if k != "patch_size"}), classed(4, 3, 32, 32)),
    Net("tv_swin3d", of("torchvision.models.video", "SwinTransformer3d", [2, 4, 4], 16, [2], [2], [2, 4, 4], num_classes=CLASSES,
                        stochastic_depth_prob=0.0), classed(3, 4, 32, 32)),
    Net("tv_r3d", narrowed(of("torchvision.models.video", "r3d_18", weights=None, num_classes=CLASSES), 8), classed(3, 4, 32, 32)),
    # speech, sound, series
    Net("hf_wav2vec2", hf("Wav2Vec2ForSequenceClassification", ("input_values",), **SPEECH), classed(640)),
    Net("hf_hubert", hf("HubertForSequenceClassification", ("input_values",), **SPEECH), classed(640)),
    Net("hf_sew", hf("SEWForSequenceClassification", ("input_values",), squeeze_factor=2, **SPEECH), classed(640)),
    Net("hf_whisper", hf("WhisperForConditionalGeneration", ("input_features", "decoder_input_ids"), fixed={"use_cache": False}, num_mel_bins=8,
                         max_source_positions=12, max_target_positions=16, **{k: v for k, v in ENCDEC.items() if k != "max_position_embeddings"}),
        heard(8, 24), flags=AXIS),
    Net("hf_speech_to_text", hf("Speech2TextForConditionalGeneration", ("input_features", "decoder_input_ids"), fixed={"use_cache": False},
                                input_feat_per_channel=8, conv_channels=16, num_conv_layers=2, max_source_positions=32, max_target_positions=16,
                                **{k: v for k, v in ENCDEC.items() if k != "max_position_embeddings"}), heard(24, 8), flags=AXIS),
    Net("hf_ast", hf("ASTForAudioClassification", ("input_values",), max_length=24, num_mel_bins=16, patch_size=8, frequency_stride=8, time_stride=8,
                     **WIDTH, **CLASSED), classed(24, 16)),
    Net("hf_patchtst", hf("PatchTSTForPrediction", ("past_values",), "prediction_outputs", num_input_channels=2, context_length=16, patch_length=4,
                          patch_stride=4, prediction_length=4, num_hidden_layers=2, d_model=16, num_attention_heads=2, ffn_dim=24, loss="mse"),
        regressed((16, 2), (4, 2)), loss="mse"),
    Net("hf_patchtsmixer", hf("PatchTSMixerForPrediction", ("past_values",), "prediction_outputs", num_input_channels=2, context_length=16,
                              patch_length=4, patch_stride=4, prediction_length=4, num_layers=2, d_model=8, loss="mse"),
        regressed((16, 2), (4, 2)), loss="mse"),
    # timm
    Net("timm_seresnet", narrowed(timm("seresnet18"), 4), images(32)),
    Net("timm_resnest", narrowed(timm("resnest14d"), 4), images(32)),
    Net("timm_nf_resnet", narrowed(timm("nf_resnet26"), 4), images(32)),
    Net("timm_repvgg", narrowed(timm("repvgg_a0"), 8), images(32)),
    Net("timm_mobilenetv4", narrowed(timm("mobilenetv4_conv_small"), 4), images(64)),
    Net("timm_hrnet", narrowed(timm("hrnet_w18_small"), 4), images(64)),
    Net("timm_deit3", timm("deit3_small_patch16_224", img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=2, init_values=0.1), images(32)),
    Net("timm_cait", timm("cait_xxs24_224", img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=2, init_values=0.1), images(32)),
    Net("timm_xcit", timm("xcit_nano_12_p16_224", img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=2), images(32)),
    Net("timm_mixer", of("timm.models.mlp_mixer", "MlpMixer", CLASSES, img_size=32, patch_size=8, embed_dim=32, num_blocks=2), images(32)),
    Net("timm_convmixer", of("timm.models.convmixer", "ConvMixer", 16, 2, kernel_size=5, patch_size=4, num_classes=CLASSES), images(32)),
    Net("timm_twins", timm("twins_svt_small", img_size=64, embed_dims=(8, 16, 24, 32), num_heads=(1, 2, 3, 4), depths=(1, 2, 2, 2)), images(64)),
    Net("timm_pit", timm("pit_ti_224", img_size=64, patch_size=8, stride=4, base_dims=(8, 8, 8), depth=(1, 1, 1), heads=(1, 2, 4)), images(64)),
    Net("timm_volo", of("timm.models.volo", "VOLO", (1, 1), img_size=32, patch_size=4, embed_dims=(16, 32), num_heads=(2, 4), use_mix_token=False,
                        stem_hidden_dim=8, num_classes=CLASSES), images(32)),
    Net("timm_coatnet", timm("coatnet_nano_rw_224", img_size=64, depths=(1, 1, 1, 1), embed_dim=(32, 32, 32, 64), stem_width=(8, 8)), images(64)),
    # torchvision
    Net("tv_maxvit", of("torchvision.models", "MaxVit", input_size=(64, 64), stem_channels=8, partition_size=2, block_channels=[8, 16],
                        block_layers=[1, 1], head_dim=4, stochastic_depth_prob=0.0, num_classes=CLASSES), images(64)),
    Net("tv_mnasnet", narrowed(of("torchvision.models", "mnasnet0_5", num_classes=CLASSES), 4), images(32)),
    # diffusers
    Net("df_unet", of("diffusers", "UNet2DModel", inputs=("sample", "timestep"), output="sample", **UNET), denoised(3, 16, 16), loss="mse"),
    Net("df_unet_conditioned", of("diffusers", "UNet2DConditionModel", inputs=("sample", "timestep", "encoder_hidden_states"), output="sample",
                                  in_channels=3, out_channels=3, cross_attention_dim=16, **UNET | dict(
                                      down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"))),
        denoised(3, 16, 16, more=(5, 16)), loss="mse"),
    Net("df_vae", of("diffusers", "AutoencoderKL", output="sample", block_out_channels=(8, 16), down_block_types=("DownEncoderBlock2D",) * 2,
                     up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=4, norm_num_groups=4), regressed((3, 16, 16), (3, 16, 16)), loss="mse"),
    Net("df_vq", of("diffusers", "VQModel", output="sample", block_out_channels=(8, 16), down_block_types=("DownEncoderBlock2D",) * 2,
                    up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=4, num_vq_embeddings=12, norm_num_groups=4),
        regressed((3, 16, 16), (3, 16, 16)), loss="mse"),
    Net("df_dit", of("diffusers", "DiTTransformer2DModel", inputs=("hidden_states", "timestep", "class_labels"), output="sample", num_attention_heads=2,
                     attention_head_dim=8, in_channels=3, out_channels=3, num_layers=2, sample_size=16, patch_size=4, num_embeds_ada_norm=1000,
                     norm_num_groups=4), denoised(3, 16, 16, more=CLASSES), loss="mse"),
    Net("df_prior", of("diffusers", "PriorTransformer", inputs=("hidden_states", "timestep", "proj_embedding"),
                       output=lambda o: o["predicted_image_embedding"].flatten(1), num_attention_heads=2, attention_head_dim=8, num_layers=2, embedding_dim=12, num_embeddings=1, additional_embeddings=2,
                       encoder_hid_proj_type=None, added_emb_type=None), denoised(12, more=(12,)), loss="mse"),
    # monai
    Net("monai_unet", of("monai.networks.nets", "UNet", 3, 1, 3, (4, 8, 12), (2, 2), num_res_units=1), regressed((1, 8, 8, 8), (3, 8, 8, 8)), loss="mse"),
    Net("monai_segresnet", of("monai.networks.nets", "SegResNet", 3, 8, 1, 3, blocks_down=(1, 1), blocks_up=(1,)),
        regressed((1, 8, 8, 8), (3, 8, 8, 8)), loss="mse"),
    Net("monai_unetr", of("monai.networks.nets", "UNETR", 1, 3, (16, 16), feature_size=4, hidden_size=16, mlp_dim=24, num_heads=2, spatial_dims=2),
        regressed((1, 16, 16), (3, 16, 16)), loss="mse"),
    Net("monai_swin_unetr", of("monai.networks.nets", "SwinUNETR", 1, 3, feature_size=12, depths=(1, 1, 1, 1), num_heads=(1, 1, 2, 2), spatial_dims=2,
                               window_size=4), regressed((1, 64, 64), (3, 64, 64)), loss="mse"),
    Net("monai_attention_unet", of("monai.networks.nets", "AttentionUnet", 2, 1, 3, (4, 8, 12), (2, 2)), regressed((1, 16, 16), (3, 16, 16)), loss="mse"),
    # graphs
    Net("pyg_gcn", lambda: DenseGraph("DenseGCNConv"), graph()),
    Net("pyg_sage", lambda: DenseGraph("DenseSAGEConv"), graph()),
    Net("pyg_gin", lambda: DenseGraph("DenseGINConv"), graph()),
    Net("pyg_gat", lambda: DenseGraph("DenseGATConv", heads=2, concat=False), graph()),
    Net("pyg_diffpool", Pooled, graph()),
]}
