! Fortran without its run-time library: a dot product and a matrix product.

function fortran_dot(count, a, b) bind(c) result(product)
  use iso_c_binding
  integer(c_size_t), value :: count
  real(c_double), intent(in) :: a(count), b(count)
  real(c_double) :: product
  product = dot_product(a, b)
end function

subroutine fortran_square(size, matrix, squared) bind(c)
  use iso_c_binding
  integer(c_size_t), value :: size
  real(c_double), intent(in) :: matrix(size, size)
  real(c_double), intent(out) :: squared(size, size)
  integer(c_size_t) :: i, j
  do j = 1, size
    do i = 1, size
      squared(i, j) = sum(matrix(i, :) * matrix(:, j))
    end do
  end do
end subroutine
