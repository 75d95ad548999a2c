"""The scikit-learn face: validate, delegate, store."""

from clusterwise.estimators.act_st import ACTST
from clusterwise.estimators.amcp import AMCP
from clusterwise.estimators.chigac import CHiGac
from clusterwise.estimators.dac import DAC
from clusterwise.estimators.deep_dpm import DeepDPM
from clusterwise.estimators.dp_mixture import DPMixture
from clusterwise.estimators.ncp import NCP

__all__ = ["ACTST", "AMCP", "DAC", "NCP", "CHiGac", "DPMixture", "DeepDPM"]
