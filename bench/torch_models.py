"""PyTorch models with weights of fixed seeds, in plain torch.nn: small ones, and those of the size that people ship."""

import torch
from torch import nn
from torch.nn import functional as F

__all__ = ["LARGE", "SMALL", "made"]


def conv_norm(inputs, outputs, kernel=3, stride=1, groups=1, act=nn.ReLU):
    parts = [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*parts, *([act()] if act else []))


class Added(nn.Module):
    """relu(body(x) + short(x)), or body(x) + x."""

    def __init__(self, body, short=None, act=None):
        super().__init__()
        self.body, self.short, self.act = body, short, act

    def forward(self, x):
        y = self.body(x) + (x if self.short is None else self.short(x))
        return y if self.act is None else self.act(y)


def conv_net():
    return nn.Sequential(
        conv_norm(3, 7, stride=2),
        nn.MaxPool2d(3, 2, 1),
        Added(nn.Sequential(conv_norm(7, 7), conv_norm(7, 7, act=None)), act=nn.ReLU()),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(7, 5),
        nn.Softmax(-1),
    )


class Attention(nn.Module):
    def __init__(self, width, heads, causal=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """A transformer's layer, normalized before its parts (or after them)."""

    def __init__(self, width, heads, causal=False, after=False, gelu="none"):
        super().__init__()
        self.after = after
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attend = Attention(width, heads, causal)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate=gelu), nn.Linear(4 * width, width))

    def forward(self, x):
        for norm, part in zip(self.norms, (self.attend, self.mlp), strict=True):
            x = norm(x + part(x)) if self.after else x + part(norm(x))
        return x


class Lstm(nn.Module):
    def __init__(self, features=11, width=13, layers=2):
        super().__init__()
        self.lstm = nn.LSTM(features, width, layers, batch_first=True, bidirectional=True)
        self.last = nn.Linear(2 * width, 5)

    def forward(self, x):
        return self.last(self.lstm(x)[0][:, -1])


def resnet50():
    def bottleneck(inputs, width, stride):
        body = nn.Sequential(
            conv_norm(inputs, width, 1), conv_norm(width, width, 3, stride), conv_norm(width, 4 * width, 1, act=None)
        )
        changes = stride != 1 or inputs != 4 * width
        return Added(body, conv_norm(inputs, 4 * width, 1, stride, act=None) if changes else None, nn.ReLU())

    layers, inputs = [conv_norm(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(bottleneck(inputs, width, stride if i == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


def mobilenet():
    def inverted(inputs, outputs, stride, expand):
        wide = inputs * expand
        first = [conv_norm(inputs, wide, 1, act=nn.ReLU6)] if expand != 1 else []
        body = nn.Sequential(
            *first, conv_norm(wide, wide, 3, stride, wide, nn.ReLU6), conv_norm(wide, outputs, 1, act=None)
        )
        return Added(body) if stride == 1 and inputs == outputs else body

    layers, inputs = [conv_norm(3, 32, 3, 2, act=nn.ReLU6)], 32
    plan = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for expand, outputs, count, stride in plan:
        for i in range(count):
            layers.append(inverted(inputs, outputs, stride if i == 0 else 1, expand))
            inputs = outputs
    last = [conv_norm(inputs, 1280, 1, act=nn.ReLU6), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000)]
    return nn.Sequential(*layers, *last)


class Vit(nn.Module):
    def __init__(self, width=768, heads=12, layers=12, side=224, patch=16):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.places = nn.Parameter(torch.randn(1, (side // patch) ** 2 + 1, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], dim=1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


class Language(nn.Module):
    """BERT (both sides, normalized after), or GPT-2 (causal, the embedding as last layer)."""

    def __init__(self, causal, width=768, heads=12, layers=12, words=30522, places=512):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(places, width)
        self.norm = nn.LayerNorm(width)
        how = {"causal": causal, "after": not causal, "gelu": "tanh" if causal else "none"}
        self.blocks = nn.Sequential(*(Block(width, heads, **how) for _ in range(layers)))
        self.causal = causal

    def forward(self, ids):
        x = self.words(ids) + self.places.weight[: ids.shape[1]]
        if self.causal:
            return self.norm(self.blocks(x)) @ self.words.weight.T
        return self.blocks(self.norm(x))


class Unet(nn.Module):
    def __init__(self, widths=(64, 128, 256, 512)):
        super().__init__()

        def twice(inputs, outputs):
            return nn.Sequential(conv_norm(inputs, outputs), conv_norm(outputs, outputs))

        self.down = nn.ModuleList(twice(a, b) for a, b in zip((3, *widths[:-1]), widths, strict=True))
        pairs = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in pairs)
        self.join = nn.ModuleList(twice(2 * b, b) for _, b in pairs)
        self.last = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        kept = []
        for i, part in enumerate(self.down):
            x = part(x if i == 0 else F.max_pool2d(x, 2))
            kept.append(x)
        for up, join, past in zip(self.up, self.join, kept[-2::-1], strict=True):
            x = join(torch.cat([past, up(x)], dim=1))
        return self.last(x)


class Speech(nn.Module):
    """An encoder of spectrograms, and a decoder of the fixed tokens that begin a transcript, as Whisper has them."""

    def __init__(self, width=384, heads=6, layers=4, bands=80, frames=1500, words=51865):
        super().__init__()
        self.first, self.second = nn.Conv1d(bands, width, 3, padding=1), nn.Conv1d(width, width, 3, 2, 1)
        self.places = nn.Parameter(torch.randn(frames, width) * 0.05)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.words = nn.Embedding(words, width)
        self.decoder = nn.ModuleList(
            nn.TransformerDecoderLayer(width, heads, 4 * width, 0, "gelu", batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.register_buffer("prompt", torch.tensor([[50258, 50259, 50359, 50363]]))
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(4))
        self.last = nn.LayerNorm(width)

    def forward(self, spectrogram):
        x = F.gelu(self.second(F.gelu(self.first(spectrogram)))).transpose(1, 2)
        heard = self.norm(self.blocks(x + self.places[: x.shape[1]]))
        y = self.words(self.prompt)
        for layer in self.decoder:
            y = layer(y, heard, tgt_mask=self.mask)
        return self.last(y) @ self.words.weight.T


class Detector(nn.Module):
    """Boxes and scores at three scales, without anchors: a network of residuals, a pyramid, distances to the four sides."""

    def __init__(self, widths=(32, 64, 128, 256), classes=20, neck=64):
        super().__init__()
        self.stem = conv_norm(3, widths[0], 3, 2, act=nn.SiLU)
        self.stages = nn.ModuleList(
            nn.Sequential(conv_norm(a, b, 3, 2, act=nn.SiLU), Added(conv_norm(b, b, act=nn.SiLU)))
            for a, b in zip(widths[:-1], widths[1:], strict=True)
        )
        self.necks = nn.ModuleList(conv_norm(w, neck, 1, act=nn.SiLU) for w in widths[1:])
        self.head = conv_norm(neck, neck, act=nn.SiLU)
        self.last = nn.Conv2d(neck, 4 + classes, 1)

    def forward(self, image):
        levels, x = [], self.stem(image)
        for stage, neck in zip(self.stages, self.necks, strict=True):
            x = stage(x)
            levels.append(neck(x))
        for i in (1, 0):
            levels[i] = levels[i] + F.interpolate(levels[i + 1], scale_factor=2.0)
        found = []
        for level, stride in zip(levels, (4, 8, 16), strict=True):
            y = self.last(self.head(level))
            rows, columns = y.shape[2:]
            at = [(torch.arange(n) + 0.5) * stride for n in (columns, rows)]
            centers = torch.stack(torch.meshgrid(*at, indexing="xy"))[None]
            near, far = (F.softplus(y[:, k : k + 2]) * stride for k in (0, 2))
            found.append(torch.cat([centers - near, centers + far, y[:, 4:].sigmoid()], dim=1).flatten(2))
        return torch.cat(found, dim=2)


# How to make it, the shape of its input, and below what integers are if it takes those.
SMALL = {
    "conv net": (conv_net, (1, 3, 37, 41), 0),
    "transformer block": (lambda: Block(21, 3), (1, 11, 21), 0),
    "causal block": (lambda: Block(21, 3, causal=True, gelu="tanh"), (1, 11, 21), 0),
    "lstm": (Lstm, (1, 7, 11), 0),
    "u-net, small": (lambda: Unet((5, 7, 11)), (1, 3, 20, 28), 0),
}
LARGE = {
    "resnet50": (resnet50, (1, 3, 224, 224), 0),
    "mobilenet_v2": (mobilenet, (1, 3, 224, 224), 0),
    "vit_b16": (Vit, (1, 3, 224, 224), 0),
    "bert_base": (lambda: Language(False), (1, 128), 30522),
    "gpt2": (lambda: Language(True, words=50257, places=1024), (1, 64), 50257),
    "unet": (Unet, (1, 3, 128, 128), 0),
    "speech": (Speech, (1, 80, 600), 0),
    "detector": (Detector, (1, 3, 192, 256), 0),
}


def made(name: str):
    """The model, ready to run, and an input for it."""
    make, shape, below = (SMALL | LARGE)[name]
    torch.manual_seed(7)
    model = make().eval()
    for module in model.modules():  # else batch normalization is the identity
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 2)
    x = torch.randint(0, below, shape) if below else torch.randn(shape)
    return model, x
