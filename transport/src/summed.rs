//! Structs of numbers that can be added and subtracted.

/// Declares a struct whose sum and difference are those of each field.
macro_rules! summed {
    ($(#[$about:meta])* pub struct $name:ident { $($(#[$what:meta])* pub $field:ident: $number:ty,)* }) => {
        $(#[$about])*
        pub struct $name {
            $($(#[$what])* pub $field: $number,)*
        }

        impl std::ops::Add for $name {
            type Output = $name;

            fn add(self, other: $name) -> $name {
                $name { $($field: self.$field + other.$field,)* }
            }
        }

        impl std::ops::Sub for $name {
            type Output = $name;

            fn sub(self, earlier: $name) -> $name {
                $name { $($field: self.$field - earlier.$field,)* }
            }
        }
    };
}
