"""Muon for matrices: momentum, then the nearest orthogonal matrix by Newton-Schulz steps. AdamW serves the rest."""
import torch


def orthogonal(stack, steps=5):
    """Nearly U V^T of each matrix of a stack [n, rows, columns]."""
    x = stack.bfloat16()
    turned = x.shape[-2] > x.shape[-1]
    x = x.transpose(-1, -2) if turned else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        a = x @ x.transpose(-1, -2)
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return (x.transpose(-1, -2) if turned else x).float()


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr, momentum=0.95, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            by_shape = {}
            for p in group["params"]:
                by_shape.setdefault(tuple(p.shape), []).append(p)
            for (rows, columns), params in by_shape.items():
                ahead = []
                for p in params:
                    speed = self.state[p].setdefault("momentum", torch.zeros_like(p))
                    speed.lerp_(p.grad, 1 - group["momentum"])
                    ahead.append(p.grad.lerp(speed, group["momentum"]))
                scale = max(1.0, rows / columns) ** 0.5
                for p, change in zip(params, orthogonal(torch.stack(ahead))):
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    p.add_(change, alpha=-group["lr"] * scale)
