//! Macros that declare structs of settings with default values. Others declare structs of counters that can be added.

/// Declares structs with a default value beside each field. For the crates of this workspace.
#[doc(hidden)]
#[macro_export]
macro_rules! with_defaults {
    ($($(#[$about:meta])* $seen:vis struct $name:ident {
        $($(#[$what:meta])* $field_seen:vis $field:ident: $kind:ty = $default:expr,)*
    })*) => {$(
        $(#[$about])*
        $seen struct $name {
            $($(#[$what])* $field_seen $field: $kind,)*
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $($field: $default,)* }
            }
        }
    )*};
}

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
