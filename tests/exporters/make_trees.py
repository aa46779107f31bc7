"""Fit small models of tables and texts and convert them: skl2onnx, onnxmltools (LightGBM, XGBoost), CatBoost's own exporter.

    make_trees.py FOLDER [--only TEXT ...]

What is there already is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from kept import Feeds, make_all, seed_of
from sklearn import (
    cluster,
    compose,
    decomposition,
    ensemble,
    feature_extraction,
    feature_selection,
    gaussian_process,
    impute,
    linear_model,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
    tree,
)  # fmt: skip

OPSET = {"": 17, "ai.onnx.ml": 3}
RNG = np.random.default_rng(0)
X = RNG.standard_normal((97, 7)).astype(np.float32)
LABEL = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(np.int64) + (X[:, 3] > 0.5)
VALUE = X[:, 0] * 2 + X[:, 4] ** 2
WORDS = ["red", "green", "blue", "round", "square", "tall", "small", "fast", "slow", "warm"]
TEXTS = [" ".join(RNG.choice(WORDS, 5)) for _ in range(61)]
MOOD = np.array([t.count("red") + t.count("fast") > 0 for t in TEXTS]).astype(int)
COLOURS = RNG.choice(WORDS[:3], (97, 1))
ROWS = (5, 3, 1)


def rows() -> list[Feeds]:
    return [{"x": X[:n] + np.float32(0.25)} for n in ROWS]


def convert(model: object, target: Path, options: dict | None = None) -> list[Feeds]:
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType

    initial = [("x", FloatTensorType([None, X.shape[1]]))]
    onnx.save(to_onnx(model, initial_types=initial, options=options, target_opset=OPSET), target)
    return rows()


def learner(
    model: Callable[[], object], wanted: np.ndarray | None, plain: bool = True
) -> Callable[[Path], list[Feeds]]:
    """Classifiers twice: with scores as a tensor, and as a list of maps."""

    def export(target: Path) -> list[Feeds]:
        fitted = model().fit(X, wanted)
        return convert(fitted, target, {id(fitted): {"zipmap": False}} if plain and wanted is LABEL else None)

    return export


def table(target: Path) -> list[Feeds]:
    """Numbers and words of one table, each with its own preparation."""
    from pandas import DataFrame
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    frame = DataFrame({f"n{i}": X[:, i] for i in range(3)} | {"colour": COLOURS[:, 0]})
    numbers = pipeline.make_pipeline(impute.SimpleImputer(), preprocessing.StandardScaler())
    columns = compose.ColumnTransformer(
        [("n", numbers, ["n0", "n1", "n2"]), ("c", preprocessing.OneHotEncoder(handle_unknown="ignore"), ["colour"])]
    )
    model = pipeline.make_pipeline(columns, linear_model.LogisticRegression()).fit(frame, LABEL)
    initial = [(f"n{i}", FloatTensorType([None, 1])) for i in range(3)] + [("colour", StringTensorType([None, 1]))]
    onnx.save(to_onnx(model, initial_types=initial, target_opset=OPSET, options={id(model): {"zipmap": False}}), target)
    return [{f"n{i}": X[:n, i : i + 1] for i in range(3)} | {"colour": COLOURS[:n]} for n in ROWS]


def texts(vectorizer: Callable[[], object], model: Callable[[], object]) -> Callable[[Path], list[Feeds]]:
    def export(target: Path) -> list[Feeds]:
        from skl2onnx import to_onnx
        from skl2onnx.common.data_types import StringTensorType

        fitted = pipeline.make_pipeline(vectorizer(), model()).fit(TEXTS, MOOD)
        initial = [("x", StringTensorType([None, 1]))]
        steps = [step for _, step in fitted.steps]
        # The locale that is there on every system.
        options = {id(steps[0]): {"locale": "C"}, id(steps[1]): {"zipmap": False}}
        onnx.save(to_onnx(fitted, initial_types=initial, target_opset=OPSET, options=options), target)
        return [{"x": np.array(TEXTS[:n])[:, None]} for n in ROWS]

    return export


def boosted(package: str, kind: str) -> Callable[[Path], list[Feeds]]:
    def export(target: Path) -> list[Feeds]:
        wanted = VALUE if kind == "regressor" else LABEL
        if package == "catboost":
            import catboost

            made = catboost.CatBoostRegressor if kind == "regressor" else catboost.CatBoostClassifier
            fitted = made(
                iterations=9, depth=3, random_seed=0, verbose=False, allow_writing_files=False, thread_count=1
            )
            fitted.fit(X, wanted).save_model(str(target), format="onnx")
            return [{"features": one["x"]} for one in rows()]
        import onnxmltools
        from onnxmltools.convert.common.data_types import FloatTensorType

        initial = [("x", FloatTensorType([None, X.shape[1]]))]
        if package == "lightgbm":
            import lightgbm

            made = lightgbm.LGBMRegressor if kind == "regressor" else lightgbm.LGBMClassifier
            fitted = made(n_estimators=9, num_leaves=7, n_jobs=1, random_state=0, verbose=-1).fit(X, wanted)
            proto = onnxmltools.convert_lightgbm(fitted, initial_types=initial, target_opset=15)
        else:
            import xgboost

            made = xgboost.XGBRegressor if kind == "regressor" else xgboost.XGBClassifier
            fitted = made(n_estimators=9, max_depth=3, n_jobs=1, random_state=0).fit(X, wanted)
            proto = onnxmltools.convert_xgboost(fitted, initial_types=initial, target_opset=15)
        onnx.save(proto, target)
        return rows()

    return export


def stacked() -> object:
    parts = [("ridge", linear_model.Ridge()), ("tree", tree.DecisionTreeRegressor(max_depth=3, random_state=0))]
    return ensemble.StackingRegressor(parts, linear_model.LinearRegression())


def voting() -> object:
    parts = [("line", linear_model.LogisticRegression()), ("bayes", naive_bayes.GaussianNB())]
    return ensemble.VotingClassifier(parts, voting="soft", flatten_transform=False)


def prepared() -> object:
    steps = (preprocessing.PolynomialFeatures(2), preprocessing.MinMaxScaler(), feature_selection.SelectKBest(k=9))
    return pipeline.make_pipeline(*steps, decomposition.PCA(5), svm.SVC(probability=True, random_state=0))


count, tfidf = feature_extraction.text.CountVectorizer, feature_extraction.text.TfidfVectorizer
MODELS: dict[str, Callable[[Path], list[Feeds]]] = {
    "forest_classifier": learner(lambda: ensemble.RandomForestClassifier(9, max_depth=4, random_state=0), LABEL),
    "forest_classifier_maps": learner(lambda: ensemble.RandomForestClassifier(5, max_depth=3, random_state=0), LABEL, plain=False),
    "forest_regressor": learner(lambda: ensemble.RandomForestRegressor(9, max_depth=4, random_state=0), VALUE),
    "extra_trees": learner(lambda: ensemble.ExtraTreesClassifier(9, max_depth=4, random_state=0), LABEL),
    "isolation_forest": learner(lambda: ensemble.IsolationForest(n_estimators=5, random_state=0), None),
    "gradient_boosting": learner(lambda: ensemble.GradientBoostingClassifier(n_estimators=5, max_depth=3, random_state=0), LABEL),
    "gradient_boosting_regressor": learner(lambda: ensemble.GradientBoostingRegressor(n_estimators=9, random_state=0), VALUE),
    "histogram_boosting": learner(lambda: ensemble.HistGradientBoostingRegressor(max_iter=9, random_state=0), VALUE),
    "adaboost": learner(lambda: ensemble.AdaBoostClassifier(n_estimators=5, random_state=0), LABEL),
    "bagging": learner(lambda: ensemble.BaggingRegressor(n_estimators=3, random_state=0), VALUE),
    "voting": learner(voting, LABEL),
    "stacking": learner(stacked, VALUE),
    "logistic": learner(lambda: pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression()), LABEL),
    "ridge": learner(lambda: pipeline.make_pipeline(preprocessing.RobustScaler(), linear_model.Ridge()), VALUE),
    "support_vectors": learner(lambda: svm.SVR(), VALUE),
    "prepared_svc": learner(prepared, LABEL),
    "neighbours": learner(lambda: neighbors.KNeighborsClassifier(3), LABEL),
    "perceptron": learner(lambda: neural_network.MLPClassifier((12, 8), max_iter=50, random_state=0), LABEL),
    "bayes": learner(lambda: naive_bayes.GaussianNB(), LABEL),
    "clusters": learner(lambda: cluster.KMeans(4, n_init=1, random_state=0), None),
    "gaussian_process": learner(lambda: gaussian_process.GaussianProcessRegressor(), VALUE),
    "table": table,
    "words": texts(lambda: count(ngram_range=(1, 2)), lambda: linear_model.LogisticRegression()),
    "tfidf": texts(lambda: tfidf(), lambda: linear_model.SGDClassifier(loss="log_loss", random_state=0)),
}  # fmt: skip
MODELS |= {f"{p}_{k}": boosted(p, k) for p in ("lightgbm", "xgboost", "catboost") for k in ("classifier", "regressor")}


def seeded(name: str, target: Path) -> list[Feeds]:
    np.random.seed(seed_of(name) % 2**31)
    return MODELS[name](target)


if __name__ == "__main__":
    make_all("trees", __doc__, ((name, partial(seeded, name)) for name in MODELS))
