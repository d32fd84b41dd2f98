"""Estimators: scikit-learn's own checks, string labels, pickling."""
import pickle
import unittest
import warnings

import numpy as np

import dpexec

try:
    import sklearn.datasets
    from sklearn.model_selection import cross_val_score
    from sklearn.utils.estimator_checks import check_estimator
except ImportError:
    sklearn = None


@unittest.skipUnless(sklearn, "scikit-learn is not installed")
class Estimators(unittest.TestCase):
    def check(self, estimator):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = check_estimator(estimator, on_fail=None)
        self.assertGreater(sum(f["status"] == "passed" for f in found), 45)
        wrong = [f for f in found if f["status"] not in ("passed", "skipped")]
        self.assertEqual([(f["check_name"], str(f["exception"])) for f in wrong], [])

    def test_the_classifier_passes_scikit_learn_s_checks(self):
        self.check(dpexec.DpexecClassifier(max_iter=30, threads=1))

    def test_the_regressor_passes_scikit_learn_s_checks(self):
        self.check(dpexec.DpexecRegressor(max_iter=30, threads=1))

    def test_labels_may_be_texts_and_pickles_predict_the_same(self):
        x, y = sklearn.datasets.load_iris(return_X_y=True)
        names = np.array(["setosa", "versicolor", "virginica"])[y]
        model = dpexec.DpexecClassifier(hidden=(32, 32), random_state=0, threads=1)
        scores = cross_val_score(model, x, names, cv=3)
        self.assertGreater(scores.min(), 0.9)
        model.fit(x, names)
        again = pickle.loads(pickle.dumps(model))
        self.assertEqual(set(again.predict(x)), set(names))
        np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))

    def test_a_network_of_a_file_is_trained(self):
        import tempfile
        x, y = sklearn.datasets.load_diabetes(return_X_y=True)
        with tempfile.TemporaryDirectory() as folder:
            path = dpexec.new("mlp", f"{folder}/own.onnx", inputs=10, outputs=1, layers=3, width=24)
            model = dpexec.DpexecRegressor(model=path, random_state=1, threads=1, max_iter=20).fit(x, y)
        self.assertGreater(model.score(x, y), 0.5)
