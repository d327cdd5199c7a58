//! Structs whose fields have default values beside them.

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
