"""Models of texts and sounds as people write them in plain torch.nn, small, with weights of seeded noise."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F
from torch_case import Case

WORDS = 97


def ids(**sizes: int) -> tuple[torch.Tensor, ...]:
    return (torch.randint(0, WORDS, (sizes["batch"], sizes["length"])),)


def split_heads(x, heads: int):
    b, n, c = x.shape
    return x.view(b, n, heads, c // heads).transpose(1, 2)


def join_heads(x):
    b, h, n, c = x.shape
    return x.transpose(1, 2).reshape(b, n, h * c)


class Bert(nn.Module):
    """Post-norm encoder with token types and a padding mask, separate products for Q, K and V, a pooler."""

    def __init__(self, width: int = 24, heads: int = 3, layers: int = 3) -> None:
        super().__init__()
        self.heads = heads
        self.words, self.places, self.types = (
            nn.Embedding(WORDS, width),
            nn.Embedding(64, width),
            nn.Embedding(2, width),
        )
        self.register_buffer("positions", torch.arange(64).unsqueeze(0))
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList()
        for _ in range(layers):
            parts = {k: nn.Linear(width, width) for k in ("q", "k", "v", "o")}
            parts |= {"up": nn.Linear(width, 2 * width), "down": nn.Linear(2 * width, width)}
            self.layers.append(nn.ModuleDict(parts | {"n1": nn.LayerNorm(width), "n2": nn.LayerNorm(width)}))
        self.pooler = nn.Linear(width, width)

    def forward(self, ids, mask, types):
        wide = mask[:, None, None, :].to(torch.float32)
        bias = (1.0 - wide) * torch.finfo(torch.float32).min
        x = self.words(ids) + self.types(types) + self.places(self.positions[:, : ids.shape[1]])
        x = self.norm(x)
        for layer in self.layers:
            q, k, v = (split_heads(layer[p](x), self.heads) for p in "qkv")
            scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + bias
            x = layer["n1"](layer["o"](join_heads(scores.softmax(-1) @ v)) + x)
            x = layer["n2"](layer["down"](F.gelu(layer["up"](x))) + x)
        return x, torch.tanh(self.pooler(x[:, 0]))


class Conv1D(nn.Module):
    """GPT-2's product: weights by columns, rows flattened."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(a, b) * 0.1), nn.Parameter(torch.randn(b) * 0.1)

    def forward(self, x):
        shape = x.size()[:-1] + (self.bias.shape[0],)
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(shape)


def gelu_new(x):
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class GPT2(nn.Module):
    def __init__(self, width: int = 24, heads: int = 3, layers: int = 3) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(64, width)
        self.register_buffer("causal", torch.tril(torch.ones(64, 64, dtype=torch.bool)).view(1, 1, 64, 64))
        self.layers = nn.ModuleList()
        for _ in range(layers):
            parts = {"qkv": Conv1D(width, 3 * width), "o": Conv1D(width, width)}
            parts |= {"up": Conv1D(width, 4 * width), "down": Conv1D(4 * width, width)}
            self.layers.append(nn.ModuleDict(parts | {"n1": nn.LayerNorm(width), "n2": nn.LayerNorm(width)}))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        n = ids.shape[1]
        x = self.words(ids) + self.places(torch.arange(n).unsqueeze(0))
        for layer in self.layers:
            q, k, v = (split_heads(p, self.heads) for p in layer["qkv"](layer["n1"](x)).split(self.width, 2))
            scores = q @ k.transpose(-1, -2) / (v.shape[-1] ** 0.5)
            least = torch.full([], torch.finfo(torch.float32).min)
            scores = torch.where(self.causal[:, :, :n, :n], scores, least)
            x = x + layer["o"](join_heads(scores.softmax(-1) @ v))
            x = x + layer["down"](gelu_new(layer["up"](layer["n2"](x))))
        return self.norm(x) @ self.words.weight.t()


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(width))

    def forward(self, x):
        y = x.to(torch.float32)
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * y.to(x.dtype)


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), -1)


class LlamaLayer(nn.Module):
    def __init__(self, width: int, heads: int, groups: int) -> None:
        super().__init__()
        self.heads, self.groups, self.head = heads, groups, width // heads
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, groups * self.head, bias=False) for _ in range(2))
        self.gate, self.up = nn.Linear(width, 40, bias=False), nn.Linear(width, 40, bias=False)
        self.down = nn.Linear(40, width, bias=False)
        self.n1, self.n2 = RMSNorm(width), RMSNorm(width)

    def repeat(self, x):
        b, g, n, d = x.shape
        times = self.heads // self.groups
        return x[:, :, None].expand(b, g, times, n, d).reshape(b, g * times, n, d)

    def forward(self, x, cos, sin, mask, past=None):
        b, n, _ = x.shape
        y = self.n1(x)
        q = self.q(y).view(b, n, self.heads, self.head).transpose(1, 2)
        k = self.k(y).view(b, n, self.groups, self.head).transpose(1, 2)
        v = self.v(y).view(b, n, self.groups, self.head).transpose(1, 2)
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        kept = (k, v)
        k, v = self.repeat(k), self.repeat(v)
        scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.head) + mask
        y = torch.matmul(F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype), v)
        x = x + self.o(y.transpose(1, 2).contiguous().reshape(b, n, -1))
        y = self.n2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y)), kept


class Llama(nn.Module):
    """Grouped queries, rotary embeddings from positions, RMS norms, gated layers; with `cached`, one step with past keys and values."""

    def __init__(self, cached: bool, width: int = 32, heads: int = 4, groups: int = 2, layers: int = 3) -> None:
        super().__init__()
        self.cached, self.head = cached, width // heads
        self.words = nn.Embedding(WORDS, width)
        self.layers = nn.ModuleList([LlamaLayer(width, heads, groups) for _ in range(layers)])
        self.norm, self.out = RMSNorm(width), nn.Linear(width, WORDS, bias=False)
        self.register_buffer("rates", 1.0 / (10000.0 ** (torch.arange(0, self.head, 2).float() / self.head)))

    def forward(self, ids, mask, positions, *past):
        x = self.words(ids)
        n, whole = ids.shape[1], mask.shape[1]
        rates = self.rates[None, :, None].float().expand(positions.shape[0], -1, 1)
        angles = (rates @ positions[:, None, :].float()).transpose(1, 2)
        angles = torch.cat((angles, angles), -1)
        cos, sin = angles.cos().unsqueeze(1), angles.sin().unsqueeze(1)
        least = torch.finfo(torch.float32).min
        causal = torch.full((n, whole), least).triu(1 + whole - n)[None, None].expand(ids.shape[0], 1, -1, -1)
        bias = causal.masked_fill((mask == 0)[:, None, None, :], least)
        results = []
        for i, layer in enumerate(self.layers):
            x, kept = layer(x, cos, sin, bias, past[2 * i : 2 * i + 2] if self.cached else None)
            results += kept
        logits = self.out(self.norm(x)).float()
        return (logits, *results) if self.cached else logits


class Sdpa(nn.Module):
    """A decoder by torch's own attention, causal by a flag, with tied weights."""

    def __init__(self, width: int = 24, heads: int = 3, layers: int = 2) -> None:
        super().__init__()
        self.heads, self.words = heads, nn.Embedding(WORDS, width)
        self.layers = nn.ModuleList()
        for _ in range(layers):
            parts = {"qkv": nn.Linear(width, 3 * width, bias=False), "o": nn.Linear(width, width, bias=False)}
            parts |= {"up": nn.Linear(width, 2 * width), "down": nn.Linear(2 * width, width)}
            self.layers.append(nn.ModuleDict(parts | {"n1": RMSNorm(width), "n2": RMSNorm(width)}))
        self.norm = RMSNorm(width)

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            q, k, v = (split_heads(p, self.heads) for p in layer["qkv"](layer["n1"](x)).chunk(3, -1))
            x = x + layer["o"](join_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
            x = x + layer["down"](F.gelu(layer["up"](layer["n2"](x)), approximate="tanh"))
        return F.linear(self.norm(x), self.words.weight)


class T5Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(width, 40, bias=False), nn.Linear(40, width, bias=False)
        self.n1, self.n2 = RMSNorm(width), RMSNorm(width)

    def forward(self, x, bias):
        y = self.n1(x)
        q, k, v = (split_heads(p(y), self.heads) for p in (self.q, self.k, self.v))
        x = x + self.o(join_heads((q @ k.transpose(-1, -2) + bias).softmax(-1) @ v))
        return x + self.down(F.relu(self.up(self.n2(x))))


class T5(nn.Module):
    """Relative positions in buckets, by logarithms."""

    def __init__(self, width: int = 24, heads: int = 3) -> None:
        super().__init__()
        self.words, self.near = nn.Embedding(WORDS, width), nn.Embedding(16, heads)
        self.layers = nn.ModuleList([T5Layer(width, heads) for _ in range(2)])
        self.norm = RMSNorm(width)

    def bias(self, n):
        places = torch.arange(n)
        relative = places[None, :] - places[:, None]
        bucket = (relative > 0).to(torch.long) * 8
        relative = torch.abs(relative)
        far = 4 + (torch.log(relative.float() / 4) / math.log(16 / 4) * 4).to(torch.long)
        far = torch.min(far, torch.full_like(far, 7))
        bucket = bucket + torch.where(relative < 4, relative, far)
        return self.near(bucket).permute(2, 0, 1).unsqueeze(0)

    def forward(self, ids, mask):
        x = self.words(ids)
        bias = self.bias(ids.shape[1]) + (1.0 - mask[:, None, None, :].float()) * -1e9
        for layer in self.layers:
            x = layer(x, bias)
        return self.norm(x)


class Whisper(nn.Module):
    """Convolutions over a spectrogram, an encoder, a decoder with a causal mask and cross-attention."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(20, width, 3, padding=1), nn.Conv1d(width, width, 3, 2, 1)
        rates = torch.exp(-math.log(10000) / (width // 2 - 1) * torch.arange(width // 2))
        angles = torch.arange(64)[:, None] * rates[None]
        self.register_buffer("waves", torch.cat([angles.sin(), angles.cos()], 1))
        self.encoder = nn.ModuleList(
            [nn.TransformerEncoderLayer(width, 3, 48, 0.0, "gelu", norm_first=True, batch_first=True)]
        )
        self.decoder = nn.ModuleList(
            [nn.TransformerDecoderLayer(width, 3, 48, 0.0, "gelu", norm_first=True, batch_first=True)]
        )
        self.words, self.places = nn.Embedding(WORDS, width), nn.Parameter(torch.randn(64, width) * 0.1)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, sound, ids):
        x = F.gelu(self.conv2(F.gelu(self.conv1(sound)))).permute(0, 2, 1)
        x = x + self.waves[: x.shape[1]]
        for layer in self.encoder:
            x = layer(x)
        memory = self.norm1(x)
        y = self.words(ids) + self.places[: ids.shape[1]]
        causal = torch.full((ids.shape[1], ids.shape[1]), float("-inf")).triu(1)
        for layer in self.decoder:
            y = layer(y, memory, tgt_mask=causal)
        return self.norm2(y) @ self.words.weight.t()


class Tagger(nn.Module):
    """Two layers, both directions."""

    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.words, self.layers = (
            nn.Embedding(WORDS, 12),
            kind(12, 10, num_layers=2, bidirectional=True, batch_first=True),
        )
        self.out = nn.Linear(20, 7)

    def forward(self, ids):
        return F.log_softmax(self.out(self.layers(self.words(ids))[0]), dim=-1)


class MambaLayer(nn.Module):
    """A selective state space: a causal convolution, steps from the input, a scan over the time."""

    def __init__(self, width: int = 12, inner: int = 16, states: int = 4, rank: int = 3) -> None:
        super().__init__()
        self.rank, self.states, self.inner = rank, states, inner
        self.norm = RMSNorm(width)
        self.inside, self.outside = nn.Linear(width, 2 * inner, bias=False), nn.Linear(inner, width, bias=False)
        self.conv = nn.Conv1d(inner, inner, 3, padding=2, groups=inner)
        self.x_proj, self.dt_proj = nn.Linear(inner, rank + 2 * states, bias=False), nn.Linear(rank, inner)
        self.a_log = nn.Parameter(torch.log(torch.arange(1, states + 1).float()).repeat(inner, 1))
        self.d = nn.Parameter(torch.ones(inner))

    def forward(self, x):
        length = x.shape[1]
        u, gate = self.inside(self.norm(x)).chunk(2, -1)
        u = F.silu(self.conv(u.transpose(1, 2))[..., :length].transpose(1, 2))
        step, b, c = self.x_proj(u).split([self.rank, self.states, self.states], -1)
        step = F.softplus(self.dt_proj(step))
        a = -torch.exp(self.a_log.float())
        decay = torch.exp(step.unsqueeze(-1) * a)
        drive = step.unsqueeze(-1) * b.unsqueeze(2) * u.unsqueeze(-1)
        state, ys = torch.zeros_like(drive[:, 0]), []
        for t in range(8):
            state = decay[:, t] * state + drive[:, t]
            ys.append((state * c[:, t].unsqueeze(1)).sum(-1))
        y = torch.stack(ys, 1) + self.d * u
        return x + self.outside(y * F.silu(gate))


class Mamba(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.layers, self.norm = (
            nn.Embedding(WORDS, 12),
            nn.Sequential(MambaLayer(), MambaLayer()),
            RMSNorm(12),
        )

    def forward(self, ids):
        return self.norm(self.layers(self.words(ids))) @ self.words.weight.t()


class ConformerBlock(nn.Module):
    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.head = heads, width // heads
        self.n1, self.n2, self.n3, self.n4, self.n5 = (nn.LayerNorm(width) for _ in range(5))
        self.ff1 = nn.Sequential(nn.Linear(width, 32), nn.SiLU(), nn.Linear(32, width))
        self.ff2 = nn.Sequential(nn.Linear(width, 32), nn.SiLU(), nn.Linear(32, width))
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.places = nn.Linear(width, width, bias=False)
        self.u, self.w = (nn.Parameter(torch.randn(heads, self.head) * 0.1) for _ in range(2))
        self.one, self.depth = nn.Conv1d(width, 2 * width, 1), nn.Conv1d(width, width, 5, padding=2, groups=width)
        self.bn, self.two = nn.BatchNorm1d(width), nn.Conv1d(width, width, 1)

    def attend(self, x, places):
        b, n, _ = x.shape
        q, k, v = (p(x).view(b, n, self.heads, self.head) for p in (self.q, self.k, self.v))
        p = self.places(places).view(1, -1, self.heads, self.head).transpose(1, 2)
        content = (q + self.u).transpose(1, 2) @ k.permute(0, 2, 3, 1)
        by_place = (q + self.w).transpose(1, 2) @ p.transpose(-2, -1)
        zeros = torch.zeros_like(by_place[..., :1])
        shifted = torch.cat([zeros, by_place], -1).view(b, self.heads, -1, n)[:, :, 1:].reshape(b, self.heads, n, -1)
        scores = (content + shifted[..., :n]) / math.sqrt(self.head)
        return self.o((scores.softmax(-1) @ v.transpose(1, 2)).transpose(1, 2).reshape(b, n, -1))

    def forward(self, x, places):
        x = x + 0.5 * self.ff1(self.n1(x))
        x = x + self.attend(self.n2(x), places)
        y = F.glu(self.one(self.n3(x).transpose(1, 2)), dim=1)
        x = x + self.two(F.silu(self.bn(self.depth(y)))).transpose(1, 2)
        return self.n5(x + 0.5 * self.ff2(self.n4(x)))


class Conformer(nn.Module):
    """Recognition of speech: a quarter of the frames, blocks with relative positions, a CTC head."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 6, 3, 2), nn.ReLU(), nn.Conv2d(6, 6, 3, 2), nn.ReLU())
        self.inside = nn.Linear(6 * 4, width)
        rates = torch.exp(torch.arange(0, width, 2).float() * (-math.log(10000.0) / width))
        angles = torch.arange(63, -64, -1).float()[:, None] * rates
        self.register_buffer("waves", torch.stack([angles.sin(), angles.cos()], 2).flatten(1).unsqueeze(0))
        self.blocks, self.head = nn.ModuleList([ConformerBlock(width) for _ in range(2)]), nn.Linear(width, 29)

    def forward(self, sound):
        x = self.conv(sound.unsqueeze(1))
        b, c, n, f = x.shape
        x = self.inside(x.transpose(1, 2).reshape(b, n, c * f)) * 4.0
        places = self.waves[:, 64 - n : 63 + n]
        for block in self.blocks:
            x = block(x, places)
        return F.log_softmax(self.head(x), -1)


class Chomp(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, x):
        return x[:, :, : -self.size].contiguous()


class TCN(nn.Module):
    """Dilated causal convolutions with weight norm and residuals."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks, self.skips = nn.ModuleList(), nn.ModuleList()
        for i, (a, b) in enumerate([(5, 12), (12, 12), (12, 12)]):
            pad = 2 * 2**i
            one = nn.utils.parametrizations.weight_norm(nn.Conv1d(a, b, 3, padding=pad, dilation=2**i))
            two = nn.utils.parametrizations.weight_norm(nn.Conv1d(b, b, 3, padding=pad, dilation=2**i))
            self.blocks.append(nn.Sequential(one, Chomp(pad), nn.ReLU(), nn.Dropout(0.1), two, Chomp(pad), nn.ReLU()))
            self.skips.append(nn.Conv1d(a, b, 1) if a != b else nn.Identity())
        self.head = nn.Linear(12, 3)

    def forward(self, signal):
        x = signal
        for block, skip in zip(self.blocks, self.skips):
            x = F.relu(block(x) + skip(x))
        return self.head(x[:, :, -1])


class Graph(nn.Module):
    """Messages along edges: a mean by scatter, attention with a softmax over incoming edges, a readout by graph."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.root, self.two = nn.Linear(6, 12), nn.Linear(6, 12), nn.Linear(12, 12, bias=False)
        self.source, self.target = nn.Linear(12, 1, bias=False), nn.Linear(12, 1, bias=False)
        self.head = nn.Linear(12, 3)

    def forward(self, nodes, edges, owner):
        a, b = edges[0], edges[1]
        n = nodes.shape[0]
        total = torch.zeros(n, 6).scatter_add(0, b[:, None].expand(-1, 6), nodes[a])
        count = torch.zeros(n).scatter_add(0, b, torch.ones_like(b, dtype=torch.float32)).clamp(min=1)
        x = F.relu(self.one(total / count[:, None]) + self.root(nodes))
        y = self.two(x)
        scores = F.leaky_relu((self.source(y)[a] + self.target(y)[b]).squeeze(-1), 0.2)
        scores = (scores - scores.max()).exp()
        whole = torch.zeros(n).scatter_add(0, b, scores)
        x = torch.zeros_like(y).scatter_add(0, b[:, None].expand(-1, 12), y[a] * (scores / (whole[b] + 1e-9))[:, None])
        pooled = torch.zeros(4, 12).scatter_add(0, owner[:, None].expand(-1, 12), F.elu(x))
        return self.head(pooled)


class Experts(nn.Module):
    """The two best of four experts, as weights over all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(12, 4, bias=False)
        self.up, self.down = nn.Parameter(torch.randn(4, 12, 20) * 0.2), nn.Parameter(torch.randn(4, 20, 12) * 0.2)
        self.words, self.norm = nn.Embedding(WORDS, 12), nn.LayerNorm(12)

    def forward(self, ids):
        x = self.words(ids)
        y = self.norm(x)
        best, which = self.router(y).softmax(-1).topk(2, dim=-1)
        best = best / best.sum(-1, keepdim=True)
        weights = (F.one_hot(which, 4).float() * best.unsqueeze(-1)).sum(-2)
        y = torch.einsum("bnd,edf->bnef", y, self.up)
        y = torch.einsum("bnef,efd->bned", F.silu(y), self.down)
        return x + (weights.unsqueeze(-1) * y).sum(2)


def masked(**sizes: int) -> tuple[torch.Tensor, ...]:
    (words,) = ids(**sizes)
    mask = torch.ones_like(words)
    mask[0, sizes["length"] // 2 + 1 :] = 0
    return words, mask


def bert(**sizes: int) -> tuple[torch.Tensor, ...]:
    words, mask = masked(**sizes)
    return words, mask, torch.randint(0, 2, words.shape)


def llama(**sizes: int) -> tuple[torch.Tensor, ...]:
    words, mask = masked(**sizes)
    return words, mask, torch.arange(sizes["length"]).repeat(sizes["batch"], 1)


def llama_step(**sizes: int) -> tuple[torch.Tensor, ...]:
    b, past = sizes["batch"], sizes["past"]
    kept = [torch.randn(b, 2, past, 8) for _ in range(6)]
    return torch.randint(0, WORDS, (b, 1)), torch.ones(b, past + 1, dtype=torch.long), torch.full((b, 1), past), *kept


def whisper(**sizes: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(sizes["batch"], 20, sizes["frames"]), *ids(**sizes)


def sound(**sizes: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(sizes["batch"], sizes["frames"], 19),)


def signal(**sizes: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(sizes["batch"], 5, sizes["length"]),)


def graph(**sizes: int) -> tuple[torch.Tensor, ...]:
    n, e = sizes["nodes"], sizes["edges"]
    return torch.randn(n, 6), torch.randint(0, n, (2, e)), torch.randint(0, 4, (n,))


ROWS = ({"batch": 2, "length": 11}, {"batch": 3, "length": 7}, {"batch": 1, "length": 1})
FREE = {"ids": {0: "batch", 1: "length"}}
MASKED = FREE | {"mask": {0: "batch", 1: "length"}}
EIGHT = tuple({"batch": n, "length": 8} for n in (2, 3, 1))
STEPS = ({"batch": 2, "past": 5}, {"batch": 3, "past": 11}, {"batch": 1, "past": 1})
KEPT = tuple(f"past_{what}_{i}" for i in range(3) for what in "kv")
STEP_AXES = {"ids": {0: "batch"}, "mask": {0: "batch", 1: "whole"}, "positions": {0: "batch"}}
STEP_AXES |= {name: {0: "batch", 2: "past"} for name in KEPT}
SOUNDS = (
    {"batch": 2, "frames": 26, "length": 5},
    {"batch": 3, "frames": 20, "length": 7},
    {"batch": 1, "frames": 2, "length": 1},
)
FRAMES = ({"batch": 2, "frames": 43}, {"batch": 3, "frames": 31}, {"batch": 1, "frames": 7})

CASES = [
    Case("bert", Bert, bert, ("ids", "mask", "types"), MASKED | {"types": {0: "batch", 1: "length"}}, ROWS),
    Case("gpt2", GPT2, ids, ("ids",), FREE, ROWS),
    Case("llama", lambda: Llama(cached=False), llama, ("ids", "mask", "positions"), MASKED | {"positions": {0: "batch", 1: "length"}}, ROWS),
    Case("llama_step", lambda: Llama(cached=True), llama_step, ("ids", "mask", "positions", *KEPT), STEP_AXES, STEPS),
    Case("sdpa", Sdpa, ids, ("ids",), FREE, ROWS),
    Case("t5", T5, masked, ("ids", "mask"), MASKED, ROWS),
    Case("whisper", Whisper, whisper, ("sound", "ids"), {"sound": {0: "batch", 2: "frames"}} | FREE, SOUNDS),
    Case("lstm_tagger", lambda: Tagger(nn.LSTM), ids, ("ids",), FREE, ROWS),
    Case("gru_tagger", lambda: Tagger(nn.GRU), ids, ("ids",), FREE, ROWS),
    Case("mamba", Mamba, ids, ("ids",), {"ids": {0: "batch"}}, EIGHT),
    Case("conformer", Conformer, sound, ("sound",), {"sound": {0: "batch", 1: "frames"}}, FRAMES),
    Case("tcn", TCN, signal, ("signal",), {"signal": {0: "batch", 2: "length"}}, ROWS),
    Case(
        "gnn", Graph, graph, ("nodes", "edges", "owner"),
        {"nodes": {0: "nodes"}, "edges": {1: "edges"}, "owner": {0: "nodes"}},
        ({"nodes": 7, "edges": 13}, {"nodes": 5, "edges": 17}, {"nodes": 1, "edges": 1}),
    ),
    Case("experts", Experts, ids, ("ids",), FREE, ROWS),
]  # fmt: skip
