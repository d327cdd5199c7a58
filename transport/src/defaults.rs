//! Records that say of each field what it is unless somebody says otherwise.

/// Declares records, each field with its default beside it. For the crates of this workspace.
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
