"""Choosing C with a proof: what a fit proves at another C, between two values of C, and without some of its samples.

=============  =====================================================================================================
file           what it holds
=============  =====================================================================================================
points         w and w(alpha) as vectors, or as sums of kernel functions, with a bound on how wrong each is
transfer       a fit, and its gap and ball at another C, between two fits, and without some samples
hinge_pieces   the gap between two fits with hinge loss: piecewise quadratic, its maximum is exact
path           a solution for every C of a range, with a certified objective
leave_one_out  the exact leave-one-out error of a fit
removal        a support vector of a kernel machine is left out: steps from the fit, and what they prove
track          one linear problem at one C after another, prepared once
race           cross-validation over a range of C, with a proof: knots are added until it is there
race_fold      the fits of one fold of it, and what they prove of its validation samples
linear_fold    such a fold with a linear model
kernel_fold    such a fold with a kernel machine, its offset free or none
sweeps         the greatest score between two knots, over the whole interval
range_errors   R^2, squared and absolute error over a range, by intervals that hold the predictions
range_scores   accuracy, balanced accuracy and F1 over a range, by the weights of samples with a right label
rulers         between two fits with a loss that has kinks: the samples inside their box tell where the optimum is
gradients      between two fits with a squared loss: the gradient bounds the distance of the optimum
positions      where between two knots a sample is open
=============  =====================================================================================================
"""
