// C++ without its standard library: classes, virtual functions, templates, constructors and destructors of statics.

#include <stdio.h>

namespace {

class Shape {
public:
	virtual ~Shape() {}
	virtual double area() const = 0;
};

class Square : public Shape {
public:
	explicit Square(double side) : side_(side) {}
	double area() const override { return side_ * side_; }

private:
	double side_;
};

class Circle : public Shape {
public:
	explicit Circle(double radius) : radius_(radius) {}
	double area() const override { return 3.0 * radius_ * radius_; }

private:
	double radius_;
};

template <typename T, unsigned long count> T sum(T (&values)[count])
{
	T total = 0;
	for (T value : values) total += value;
	return total;
}

struct Static {
	Static() : value(7) {}
	~Static() { printf("\nC++: destructor of a static object"); }
	volatile int value;
};

Static object;

}

extern "C" double cxx_area(double size)
{
	// Initialized by the first call, under a guard.
	static Square none(size - size);
	Shape *shapes[] = { new Square(size), new Circle(size) };
	double areas[2];
	for (int i = 0; i < 2; i++) {
		areas[i] = shapes[i]->area();
		delete shapes[i];
	}
	return sum(areas) + object.value + none.area();
}
