"""Official tests of If and Loop whose condition and trip count are inputs, with these as constants, as the importer wants them.

    python tests/conformance/decided.py     # onnx 1.22 and the test data of its wheel; writes data/node
"""
import pathlib
import shutil

import onnx
import onnx.backend.test

FROM = pathlib.Path(onnx.backend.test.__file__).parent / "data" / "node"
TO = pathlib.Path(__file__).resolve().parent / "data" / "node"

for name, decides in {"test_if": ["cond"], "test_loop11": ["trip_count", "cond"]}.items():
    model = onnx.load(FROM / name / "model.onnx")
    folder = TO / f"{name}_decided"
    sets = folder / "test_data_set_0"
    sets.mkdir(parents=True, exist_ok=True)
    kept = 0
    for i, v in enumerate(list(model.graph.input)):
        data = FROM / name / "test_data_set_0" / f"input_{i}.pb"
        if v.name in decides:
            t = onnx.load_tensor(data)
            t.name = v.name
            model.graph.initializer.append(t)
            model.graph.input.remove(v)
        else:
            shutil.copyfile(data, sets / f"input_{kept}.pb")
            kept += 1
    for i in range(len(model.graph.output)):
        shutil.copyfile(FROM / name / "test_data_set_0" / f"output_{i}.pb", sets / f"output_{i}.pb")
    onnx.checker.check_model(model)
    onnx.save(model, folder / "model.onnx")
