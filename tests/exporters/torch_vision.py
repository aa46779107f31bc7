"""Image models as people write them in plain torch.nn, small, with weights of seeded noise."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F
from torch_case import Case
from torchvision.ops import nms, roi_align


def image(**sizes: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(sizes["batch"], 3, sizes["height"], sizes["width"]),)


PLANES = {"image": {0: "batch", 2: "height", 3: "width"}}
BATCH = {"image": {0: "batch"}}


def conv(
    a: int, b: int, kernel: int, stride: int = 1, groups: int = 1, act: type[nn.Module] | None = nn.ReLU
) -> nn.Sequential:
    layers = [nn.Conv2d(a, b, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(b)]
    return nn.Sequential(*layers, *([act()] if act else []))


class BasicBlock(nn.Module):
    def __init__(self, a: int, b: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = conv(a, b, 3, stride), conv(b, b, 3, act=None)
        self.shortcut = conv(a, b, 1, stride, act=None) if stride != 1 or a != b else nn.Identity()

    def forward(self, x):
        return F.relu(self.second(self.first(x)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, 8, 7, 2), nn.MaxPool2d(3, 2, 1))
        widths = [(8, 8, 1), (8, 8, 1), (8, 16, 2), (16, 16, 1), (16, 24, 2), (24, 24, 1)]
        self.blocks = nn.Sequential(*(BasicBlock(*w) for w in widths))
        self.head = nn.Linear(24, 11)

    def forward(self, image):
        x = F.adaptive_avg_pool2d(self.blocks(self.stem(image)), (1, 1))
        return self.head(torch.flatten(x, 1))


class SqueezeExcite(nn.Module):
    def __init__(self, width: int, act: nn.Module, gate: nn.Module) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(width, width // 4, 1), nn.Conv2d(width // 4, width, 1)
        self.act, self.gate = act, gate

    def forward(self, x):
        return x * self.gate(self.up(self.act(self.down(x.mean((2, 3), keepdim=True)))))


class Inverted(nn.Module):
    def __init__(self, a: int, b: int, stride: int, act: type[nn.Module], gate: nn.Module | None) -> None:
        super().__init__()
        wide = 4 * a
        layers = [conv(a, wide, 1, act=act), conv(wide, wide, 3, stride, wide, act)]
        if gate is not None:
            layers.append(SqueezeExcite(wide, act(), gate))
        self.layers = nn.Sequential(*layers, conv(wide, b, 1, act=None))
        self.adds = stride == 1 and a == b

    def forward(self, x):
        y = self.layers(x)
        return x + y if self.adds else y


class MobileNet(nn.Module):
    """MobileNetV3 in small, with blocks of V2 before it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv(3, 8, 3, 2, act=nn.Hardswish)
        blocks = [Inverted(8, 8, 1, nn.ReLU6, None), Inverted(8, 12, 2, nn.ReLU6, None)]
        blocks += [
            Inverted(12, 12, 1, nn.Hardswish, nn.Hardsigmoid()),
            Inverted(12, 16, 2, nn.Hardswish, nn.Hardsigmoid()),
        ]
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Sequential(nn.Linear(16, 32), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(32, 11))

    def forward(self, image):
        return self.head(self.blocks(self.stem(image)).mean((2, 3)))


class EfficientNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = conv(3, 8, 3, 2, act=nn.SiLU)
        widths = [(8, 8, 1), (8, 12, 2), (12, 12, 1), (12, 20, 2), (20, 20, 1)]
        self.blocks = nn.Sequential(*(Inverted(*w, nn.SiLU, nn.Sigmoid()) for w in widths))
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(20, 11))

    def forward(self, image):
        return self.head(self.blocks(self.stem(image)))


class ChannelsFirstNorm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.depth, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width, eps=1e-6)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x):
        y = self.norm(self.depth(x).permute(0, 2, 3, 1))
        y = self.gamma * self.down(F.gelu(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


class ConvNext(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 4, 4), ChannelsFirstNorm(8))
        self.blocks = nn.Sequential(
            ConvNextBlock(8), ChannelsFirstNorm(8), nn.Conv2d(8, 12, 2, 2), ConvNextBlock(12), ConvNextBlock(12)
        )
        self.norm, self.head = nn.LayerNorm(12), nn.Linear(12, 11)

    def forward(self, image):
        return self.head(self.norm(self.blocks(self.stem(image)).mean((-2, -1))))


class ViTBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        b, n, c = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, c))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 24, 8, 8)
        self.token, self.places = nn.Parameter(torch.randn(1, 1, 24)), nn.Parameter(torch.randn(1, 17, 24))
        self.blocks = nn.Sequential(*(ViTBlock(24, 3) for _ in range(3)))
        self.norm, self.head = nn.LayerNorm(24), nn.Linear(24, 11)

    def forward(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


def windows(x, size: int):
    b, h, w, c = x.shape
    x = x.view(b, h // size, size, w // size, size, c)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, size * size, c)


class SwinBlock(nn.Module):
    def __init__(self, width: int, heads: int, side: int, window: int, shift: int) -> None:
        super().__init__()
        self.heads, self.side, self.window, self.shift = heads, side, window, shift
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads))
        places = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        relative = (places[:, :, None] - places[:, None, :]).permute(1, 2, 0) + window - 1
        self.register_buffer("index", relative[:, :, 0] * (2 * window - 1) + relative[:, :, 1])
        mask = None
        if shift:
            regions = torch.zeros(1, side, side, 1)
            cuts = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
            for i, rows in enumerate(cuts):
                for j, columns in enumerate(cuts):
                    regions[:, rows, columns] = 3 * i + j
            ids = windows(regions, window).squeeze(-1)
            mask = ids.unsqueeze(1) - ids.unsqueeze(2)
            mask = mask.masked_fill(mask != 0, -100.0).masked_fill(mask == 0, 0.0)
        self.register_buffer("mask", mask)

    def attend(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        scores = (q * (c // self.heads) ** -0.5) @ k.transpose(-2, -1)
        bias = self.table[self.index.view(-1)].view(n, n, -1).permute(2, 0, 1).contiguous()
        scores = scores + bias.unsqueeze(0)
        if self.mask is not None:
            count = self.mask.shape[0]
            scores = scores.view(b // count, count, self.heads, n, n) + self.mask.unsqueeze(1).unsqueeze(0)
            scores = scores.view(-1, self.heads, n, n)
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c)
        return self.out(y)

    def forward(self, x):
        b, n, c = x.shape
        side, window = self.side, self.window
        y = self.norm1(x).view(b, side, side, c)
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), (1, 2))
        y = self.attend(windows(y, window)).view(b, side // window, side // window, window, window, c)
        y = y.permute(0, 1, 3, 2, 4, 5).contiguous().view(b, side, side, c)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        x = x + y.view(b, n, c)
        return x + self.mlp(self.norm2(x))


class Swin(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches, self.norm0 = nn.Conv2d(3, 12, 4, 4), nn.LayerNorm(12)
        self.first = nn.Sequential(SwinBlock(12, 2, 8, 4, 0), SwinBlock(12, 2, 8, 4, 2))
        self.norm1, self.merge = nn.LayerNorm(48), nn.Linear(48, 24, bias=False)
        self.second = nn.Sequential(SwinBlock(24, 4, 4, 2, 0), SwinBlock(24, 4, 4, 2, 1))
        self.norm2, self.head = nn.LayerNorm(24), nn.Linear(24, 11)

    def forward(self, image):
        x = self.norm0(self.patches(image).flatten(2).transpose(1, 2))
        x = self.first(x)
        b = x.shape[0]
        x = x.view(b, 8, 8, 12)
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1).view(b, -1, 48)
        x = self.second(self.merge(self.norm1(x)))
        return self.head(self.norm2(x).transpose(1, 2).mean(-1))


class ResBlock(nn.Module):
    def __init__(self, a: int, b: int, time: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, a), nn.Conv2d(a, b, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(4, b), nn.Conv2d(b, b, 3, padding=1)
        self.time = nn.Linear(time, b)
        self.skip = nn.Conv2d(a, b, 1) if a != b else nn.Identity()

    def forward(self, x, t):
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(t))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(y)))


class PlaneAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.norm = heads, nn.GroupNorm(4, width)
        self.qkv, self.out = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(b * self.heads, 3 * c // self.heads, h * w).chunk(3, 1)
        scores = torch.einsum("bct,bcs->bts", q * (c // self.heads) ** -0.5, k).softmax(-1)
        return x + self.out(torch.einsum("bts,bcs->bct", scores, v).reshape(b, c, h, w))


class UNet(nn.Module):
    """The noise predictor of a diffusion model: time embedding, group norms, attention at the lowest level."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 32))
        self.inside, self.outside = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 3, 3, padding=1)
        self.down1, self.down2 = ResBlock(8, 8, 32), ResBlock(8, 16, 32)
        self.shrink1, self.shrink2 = nn.Conv2d(8, 8, 3, 2, 1), nn.Conv2d(16, 16, 3, 2, 1)
        self.middle1, self.attention, self.middle2 = ResBlock(16, 16, 32), PlaneAttention(16, 2), ResBlock(16, 16, 32)
        self.up2, self.up1 = ResBlock(32, 8, 32), ResBlock(16, 8, 32)
        self.norm = nn.GroupNorm(4, 8)

    def forward(self, image, step):
        rates = torch.exp(-9.2 * torch.arange(8, dtype=torch.float32) / 8)
        angles = step.float()[:, None] * rates[None]
        t = self.time(torch.cat([torch.cos(angles), torch.sin(angles)], -1))
        a = self.down1(self.inside(image), t)
        b = self.down2(self.shrink1(a), t)
        x = self.middle2(self.attention(self.middle1(self.shrink2(b), t)), t)
        x = self.up2(torch.cat([F.interpolate(x, scale_factor=2.0, mode="nearest"), b], 1), t)
        x = self.up1(torch.cat([F.interpolate(x, size=a.shape[-2:], mode="nearest"), a], 1), t)
        return self.outside(F.silu(self.norm(x)))


class DiffusionStep(nn.Module):
    """One step of DDIM with guidance: the predictor twice as one batch, then the formula."""

    def __init__(self) -> None:
        super().__init__()
        self.unet = UNet()
        self.register_buffer("alphas", torch.cumprod(1 - torch.linspace(1e-4, 0.02, 50), 0))

    def forward(self, image, step, before, guidance):
        noise = self.unet(torch.cat([image, image]), torch.cat([step, step]))
        plain, guided = noise.chunk(2)
        noise = plain + guidance * (guided - plain)
        now, then = self.alphas[step][:, None, None, None], self.alphas[before][:, None, None, None]
        clean = ((image - (1 - now).sqrt() * noise) / now.sqrt()).clamp(-1, 1)
        return then.sqrt() * clean + (1 - then).sqrt() * noise


class CSP(nn.Module):
    def __init__(self, a: int, b: int) -> None:
        super().__init__()
        self.inside, self.outside = conv(a, b, 1, act=nn.SiLU), conv(b + b // 2, b, 1, act=nn.SiLU)
        self.one, self.two = conv(b // 2, b // 2, 3, act=nn.SiLU), conv(b // 2, b // 2, 3, act=nn.SiLU)

    def forward(self, x):
        a, b = self.inside(x).chunk(2, 1)
        return self.outside(torch.cat([a, b, b + self.two(self.one(b))], 1))


class SPPF(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inside, self.outside = conv(width, width // 2, 1, act=nn.SiLU), conv(2 * width, width, 1, act=nn.SiLU)

    def forward(self, x):
        x = self.inside(x)
        a = F.max_pool2d(x, 5, 1, 2)
        b = F.max_pool2d(a, 5, 1, 2)
        return self.outside(torch.cat([x, a, b, F.max_pool2d(b, 5, 1, 2)], 1))


def centres(n):
    return torch.arange(n, dtype=torch.float32) + 0.5


class Yolo(nn.Module):
    """Three maps, a head that decodes distances as distributions, boxes of anchors; with `select`, NMS behind it."""

    def __init__(self, select: bool) -> None:
        super().__init__()
        self.select, self.classes, self.bins = select, 5, 4
        self.stem = nn.Sequential(conv(3, 8, 3, 2, act=nn.SiLU), conv(8, 8, 3, 2, act=nn.SiLU), CSP(8, 8))
        self.down = nn.ModuleList([conv(8, 8, 3, 2, act=nn.SiLU) for _ in range(3)])
        self.csp = nn.ModuleList([CSP(8, 8) for _ in range(3)])
        self.spp = SPPF(8)
        self.join = nn.ModuleList([CSP(16, 8) for _ in range(2)])
        self.boxes = nn.ModuleList([nn.Conv2d(8, 4 * self.bins, 1) for _ in range(3)])
        self.scores = nn.ModuleList([nn.Conv2d(8, self.classes, 1) for _ in range(3)])
        self.register_buffer("project", torch.arange(self.bins, dtype=torch.float32))

    def forward(self, image):
        x, maps = self.stem(image), []
        for down, csp in zip(self.down, self.csp):
            x = csp(down(x))
            maps.append(x)
        maps[2] = self.spp(maps[2])
        for i, join in zip((1, 0), self.join):
            maps[i] = join(torch.cat([F.interpolate(maps[i + 1], scale_factor=2.0, mode="nearest"), maps[i]], 1))
        boxes, scores, anchors, strides = [], [], [], []
        for i, (level, to_box, to_score) in enumerate(zip(maps, self.boxes, self.scores)):
            b, _, h, w = level.shape
            boxes.append(to_box(level).view(b, 4 * self.bins, -1))
            scores.append(to_score(level).view(b, self.classes, -1))
            sy, sx = torch.meshgrid(centres(h), centres(w), indexing="ij")
            anchors.append(torch.stack([sx, sy], -1).view(-1, 2))
            strides.append(torch.full((h * w, 1), float(8 * 2**i), dtype=torch.float32))
        distances, scores = torch.cat(boxes, 2), torch.cat(scores, 2).sigmoid()
        anchors, strides = torch.cat(anchors).transpose(0, 1), torch.cat(strides).transpose(0, 1)
        b, _, n = distances.shape
        shares = distances.view(b, 4, self.bins, n).transpose(2, 1).softmax(1)
        distances = (shares * self.project.view(1, -1, 1, 1)).sum(1)
        low, high = distances.chunk(2, 1)
        low, high = anchors.unsqueeze(0) - low, anchors.unsqueeze(0) + high
        found = torch.cat([(low + high) / 2, high - low], 1) * strides
        if not self.select:
            return torch.cat([found, scores], 1)
        best, kind = scores[0].max(0)
        centre, extent = found[0].transpose(0, 1).chunk(2, 1)
        corners = torch.cat([centre - extent / 2, centre + extent / 2], 1)
        kept = nms(corners + kind[:, None].to(corners.dtype) * 4096.0, best, 0.5)
        return corners[kept], best[kept], kind[kept]


class Detr(nn.Module):
    """A small backbone, sine positions, torch.nn's encoder and decoder layers, queries, two heads."""

    def __init__(self) -> None:
        super().__init__()
        width = 16
        self.backbone = nn.Sequential(conv(3, 8, 3, 2), conv(8, width, 3, 2), conv(width, width, 3, 2))
        self.encoder = nn.TransformerEncoderLayer(width, 2, 32, 0.0, batch_first=True)
        self.decoder = nn.TransformerDecoderLayer(width, 2, 32, 0.0, batch_first=True)
        self.queries = nn.Parameter(torch.randn(5, width))
        self.kinds = nn.Linear(width, 7)
        self.boxes = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4))

    def places(self, x):
        ones = torch.ones_like(x[:, 0])
        down, across = ones.cumsum(1), ones.cumsum(2)
        down, across = 6.2832 * down / (down[:, -1:, :] + 1e-6), 6.2832 * across / (across[:, :, -1:] + 1e-6)
        rates = 10000.0 ** (2 * (torch.arange(8) // 2) / 8)
        down, across = down[..., None] / rates, across[..., None] / rates
        across = torch.stack([across[..., 0::2].sin(), across[..., 1::2].cos()], 4).flatten(3)
        down = torch.stack([down[..., 0::2].sin(), down[..., 1::2].cos()], 4).flatten(3)
        return torch.cat([down, across], 3).permute(0, 3, 1, 2)

    def forward(self, image):
        x = self.backbone(image)
        x = (x + self.places(x)).flatten(2).permute(0, 2, 1)
        memory = self.encoder(x)
        y = self.decoder(self.queries.unsqueeze(0).repeat(x.shape[0], 1, 1), memory)
        return self.kinds(y), self.boxes(y).sigmoid()


class TwoStage(nn.Module):
    """A feature map, proposals by top-k, RoIAlign, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(conv(3, 8, 3, 2), conv(8, 12, 3, 2))
        self.score, self.delta = nn.Conv2d(12, 3, 1), nn.Conv2d(12, 12, 1)
        self.head = nn.Sequential(nn.Linear(12 * 9, 16), nn.ReLU(), nn.Linear(16, 5))
        self.register_buffer("base", torch.tensor([[-4.0, -4, 4, 4], [-8, -4, 8, 4], [-4, -8, 4, 8]]))

    def forward(self, image):
        x = self.backbone(image)
        h, w = x.shape[-2:]
        sy, sx = torch.meshgrid(4 * centres(h), 4 * centres(w), indexing="ij")
        anchors = (torch.stack([sx, sy, sx, sy], -1).view(-1, 1, 4) + self.base).view(-1, 4)
        scores = self.score(x)[0].permute(1, 2, 0).reshape(-1)
        deltas = self.delta(x)[0].view(3, 4, h, w).permute(2, 3, 0, 1).reshape(-1, 4)
        size = anchors[:, 2:] - anchors[:, :2]
        centre = anchors[:, :2] + 0.5 * size + deltas[:, :2] * size
        size = size * deltas[:, 2:].clamp(max=4.0).exp()
        boxes = torch.cat([centre - 0.5 * size, centre + 0.5 * size], 1)
        boxes = torch.stack(
            [boxes[:, 0].clamp(0, 63), boxes[:, 1].clamp(0, 63), boxes[:, 2].clamp(0, 63), boxes[:, 3].clamp(0, 63)], 1
        )
        best = boxes[scores.topk(6)[1]]
        rois = torch.cat([torch.zeros_like(best[:, :1]), best], 1)
        return self.head(roi_align(x, rois, (3, 3), 0.25, 2).flatten(1)), best


class Segmenter(nn.Module):
    """Dilated convolutions side by side, a pooled branch stretched back, the result at the image's own size."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, 8, 3, 2), conv(8, 12, 3, 2))
        self.rates = nn.ModuleList([nn.Conv2d(12, 6, 3, padding=r, dilation=r, bias=False) for r in (1, 2, 3)])
        self.pooled = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(12, 6, 1), nn.ReLU())
        self.head = nn.Conv2d(24, 5, 1)

    def forward(self, image):
        x = self.stem(image)
        pooled = F.interpolate(self.pooled(x), size=x.shape[-2:], mode="bilinear", align_corners=False)
        x = self.head(torch.cat([r(x) for r in self.rates] + [pooled], 1))
        return F.interpolate(x, size=image.shape[-2:], mode="bilinear", align_corners=False)


class SuperResolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.middle = nn.Conv2d(3, 12, 5, padding=2), nn.Conv2d(12, 12, 3, padding=1)
        self.slope, self.last = nn.PReLU(12), nn.Conv2d(12, 12, 3, padding=1)

    def forward(self, image):
        x = self.slope(self.first(image))
        y = F.pixel_shuffle(self.last(F.leaky_relu(self.middle(F.pad(x, (1, 1, 1, 1), mode="reflect")), 0.2)), 2)
        return (y[..., 2:-2, 2:-2] + F.interpolate(image, scale_factor=2.0, mode="bicubic")).clamp(0, 1)


def noisy(**sizes: int) -> tuple[torch.Tensor, ...]:
    return (*image(**sizes), torch.randint(0, 50, (sizes["batch"],)))


def step(**sizes: int) -> tuple[torch.Tensor, ...]:
    return (*noisy(**sizes), torch.randint(0, 50, (sizes["batch"],)), torch.tensor(1.5))


FREE = (
    {"batch": 2, "height": 64, "width": 96},
    {"batch": 3, "height": 96, "width": 64},
    {"batch": 1, "height": 32, "width": 32},
)
FIXED = tuple({"batch": n, "height": 32, "width": 32} for n in (2, 3, 1))
SMALL = (
    {"batch": 2, "height": 16, "width": 24},
    {"batch": 3, "height": 24, "width": 8},
    {"batch": 1, "height": 8, "width": 8},
)
ALONE = tuple({"batch": 1, "height": h, "width": w} for h, w in ((64, 96), (96, 64), (32, 32)))
FLAT = {"image": {2: "height", 3: "width"}}
NOISY = PLANES | {"step": {0: "batch"}}

CASES = [
    Case("resnet", ResNet, image, ("image",), PLANES, FREE),
    Case("mobilenet", MobileNet, image, ("image",), PLANES, FREE),
    Case("efficientnet", EfficientNet, image, ("image",), PLANES, FREE),
    Case("convnext", ConvNext, image, ("image",), PLANES, FREE),
    Case("vit", ViT, image, ("image",), BATCH, FIXED),
    Case("swin", Swin, image, ("image",), BATCH, FIXED),
    Case("unet", UNet, noisy, ("image", "step"), NOISY, SMALL),
    Case(
        "diffusion_step",
        DiffusionStep,
        step,
        ("image", "step", "before", "guidance"),
        NOISY | {"before": {0: "batch"}},
        SMALL,
    ),
    Case("yolo", lambda: Yolo(select=False), image, ("image",), PLANES, FREE),
    Case("yolo_nms", lambda: Yolo(select=True), image, ("image",), FLAT, ALONE),
    Case("detr", Detr, image, ("image",), PLANES, FREE),
    Case("two_stage", TwoStage, image, ("image",), FLAT, ALONE),
    Case("segmenter", Segmenter, image, ("image",), PLANES, FREE),
    Case("super_resolution", SuperResolution, image, ("image",), PLANES, SMALL),
]
