"""dpexec.from_torch against PyTorch's own training; a DataLoader; tensors by DLPack."""
import unittest

import numpy as np

import dpexec

try:
    import onnx
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset
except ImportError:
    torch = None


@unittest.skipUnless(torch, "torch and onnx are not installed")
class FromTorch(unittest.TestCase):
    def test_a_network_with_batch_norm_trains_as_in_torch(self):
        torch.manual_seed(0)
        make = lambda: nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
                                     nn.Linear(256, 3))
        net = make()
        x, y = torch.randn(64, 1, 8, 8), torch.randint(0, 3, (64,))
        before = {k: v.clone() for k, v in net.state_dict().items()}
        model = dpexec.from_torch(net, x[:2])
        for k, v in net.state_dict().items():
            self.assertTrue(torch.equal(v, before[k]), k)
        loader = DataLoader(TensorDataset(x, y), batch_size=16)
        run = dpexec.train(model, loader, loss="cross-entropy", lr=0.05, epochs=3, threads=1)
        theirs, losses = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9), []
        twin = make()
        for _ in range(3):
            for a, b in loader:
                loss = nn.functional.cross_entropy(net(a), b)
                theirs.zero_grad()
                loss.backward()
                theirs.step()
                losses.append(loss.item())
        np.testing.assert_allclose(run.history["loss"], losses, atol=1e-5)
        self.assertIn("1.running_var", dpexec.to_torch(run.trainer, twin))
        for name, want in net.state_dict().items():
            if name != "1.num_batches_tracked":
                np.testing.assert_allclose(twin.state_dict()[name].numpy(), want.numpy(), atol=1e-5, err_msg=name)
        with torch.no_grad():
            np.testing.assert_allclose(run.best.predict(x), net.eval()(x).numpy(), atol=1e-4)

    def test_tensors_of_all_kinds_are_read(self):
        """bfloat16, which NumPy lacks; transposed, expanded and sliced ones; one with a gradient."""
        model = dpexec.from_torch(nn.Linear(5, 3), torch.zeros(2, 5))
        t = dpexec.Trainer(model, threads=1)
        x = torch.randn(8, 5)
        for given in (x.bfloat16(), x.bfloat16().T.contiguous().T, x.half(), x.requires_grad_(), x[::2], x.T.clone().T,
                      torch.randn(5).expand(8, 5)):
            np.testing.assert_array_equal(t.predict(given), t.predict(given.detach().float().contiguous().numpy()))
        with self.assertRaisesRegex(dpexec.InvalidArgument, "'x': "):
            t.predict(x.detach().to_sparse())
        with self.assertRaisesRegex(dpexec.InvalidArgument, "'x': "):
            t.predict(torch.empty(8, 5, device="meta"))

    def test_a_module_of_other_names_is_refused(self):
        net = nn.Linear(5, 3)
        model = dpexec.from_torch(net, torch.zeros(2, 5))
        trainer = dpexec.Trainer(model, loss="cross-entropy", batch_size=2, threads=1)
        with self.assertRaisesRegex(dpexec.InvalidArgument, "the trainer has no state '0.weight'"):
            dpexec.to_torch(trainer, nn.Sequential(net))
        with self.assertRaisesRegex(dpexec.InvalidArgument, "'weight' is .3, 5. in the trainer and .5, 3. in the"):
            dpexec.to_torch(trainer, nn.Linear(3, 5))
        with self.assertRaisesRegex(dpexec.InvalidArgument, "takes a Trainer.*found a Model"):
            dpexec.to_torch(model, net)
