//! The layout of a value's bytes, as text: the names and types of all its fields, down to numbers, regardless
//! of their values. Two programs with equal text can read each other's bytes.
//!
//! A type describes its fields when it is deserialized. Here it is deserialized without input: each number is
//! 0, each list has one element, each option is present, and each enum takes every variant in turn.

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor, value::Error,
};
use std::collections::BTreeMap;

/// More rounds than any type here needs: one for each variant of each enum in it, and one more.
const ROUNDS: usize = 10_000;

/// The layout of `T`: a line for it, and one for each variant of each enum in it.
pub fn layout<T: DeserializeOwned>() -> String {
    let mut enums: BTreeMap<&'static str, Turn> = BTreeMap::new();
    for _ in 0..ROUNDS {
        let mut tracer = Tracer { text: String::new(), enums: &mut enums, met: Vec::new() };
        if let Err(error) = T::deserialize(&mut tracer) {
            panic!("{}: {error} after {}", std::any::type_name::<T>(), tracer.text);
        }
        let Tracer { text, met, .. } = tracer;
        // The last enum met goes through all its variants first, because it may be nested in one of the
        // others.
        let Some(last) = met.iter().rev().find(|name| !enums[*name].done) else {
            let variants = enums.into_values().flat_map(|turn| turn.shown.into_values());
            return std::iter::once(text).chain(variants).collect::<Vec<_>>().join("\n");
        };
        enums.entry(last).and_modify(Turn::advance);
    }
    panic!("{} has too many variants", std::any::type_name::<T>())
}

/// Which variant of an enum is used in this round.
#[derive(Default)]
struct Turn {
    now: usize,
    of: usize,
    done: bool,
    /// The line of each variant.
    shown: BTreeMap<usize, String>,
}

impl Turn {
    fn advance(&mut self) {
        self.now += 1;
        if self.now >= self.of {
            (self.now, self.done) = (0, true);
        }
    }
}

struct Tracer<'a> {
    text: String,
    enums: &'a mut BTreeMap<&'static str, Turn>,
    met: Vec<&'static str>,
}

impl Tracer<'_> {
    fn say(&mut self, word: &str) {
        self.text.push_str(word);
    }
}

macro_rules! numbers {
    ($($method:ident $visit:ident $type:ty;)+) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.say(concat!(stringify!($type), " "));
            visitor.$visit(<$type>::default())
        })+
    };
}

impl<'de> Deserializer<'de> for &mut Tracer<'_> {
    type Error = Error;

    numbers! {
        deserialize_bool visit_bool bool;
        deserialize_i8 visit_i8 i8;
        deserialize_i16 visit_i16 i16;
        deserialize_i32 visit_i32 i32;
        deserialize_i64 visit_i64 i64;
        deserialize_u8 visit_u8 u8;
        deserialize_u16 visit_u16 u16;
        deserialize_u32 visit_u32 u32;
        deserialize_u64 visit_u64 u64;
        deserialize_f32 visit_f32 f32;
        deserialize_f64 visit_f64 f64;
        deserialize_char visit_char char;
        deserialize_string visit_string String;
        deserialize_byte_buf visit_byte_buf Vec<u8>;
    }
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_string(visitor)
    }
    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_byte_buf(visitor)
    }
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.say("option ");
        visitor.visit_some(self)
    }
    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }
    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.say(name);
        visitor.visit_unit()
    }
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.say(name);
        self.say(" ");
        visitor.visit_newtype_struct(self)
    }
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.say("list ");
        visitor.visit_seq(Parts { tracer: self, names: &[], left: 1 })
    }
    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(Parts { tracer: self, names: &[], left: len })
    }
    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.say(name);
        self.say(" ");
        self.deserialize_tuple(len, visitor)
    }
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.say("map ");
        visitor.visit_map(Parts { tracer: self, names: &[], left: 1 })
    }
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.say(name);
        self.say("{");
        let read = visitor.visit_seq(Parts { tracer: self, names: fields, left: fields.len() })?;
        self.say("} ");
        Ok(read)
    }
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let turn = self.enums.entry(name).or_default();
        turn.of = variants.len();
        let now = turn.now;
        self.met.push(name);
        self.say(name);
        self.say(" ");
        let outside = std::mem::replace(&mut self.text, format!("{name}::{}={now} ", variants[now]));
        let read = visitor.visit_enum(Variant { tracer: &mut *self, now })?;
        let line = std::mem::replace(&mut self.text, outside);
        let shown = self.enums.entry(name).or_default().shown.entry(now).or_insert_with(|| line.clone());
        assert_eq!(*shown, line, "two enums have the name {name}");
        Ok(read)
    }
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }
    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Error> {
        Err(serde::de::Error::custom("the type needs a self-describing format, which this is not"))
    }
    fn is_human_readable(&self) -> bool {
        false
    }
}

/// Elements or fields that are still to come.
struct Parts<'a, 'b> {
    tracer: &'a mut Tracer<'b>,
    names: &'static [&'static str],
    left: usize,
}

impl<'de> SeqAccess<'de> for Parts<'_, '_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        if let Some(name) = self.names.len().checked_sub(self.left).and_then(|place| self.names.get(place)) {
            self.tracer.say(name);
            self.tracer.say(": ");
        }
        self.left = left;
        seed.deserialize(&mut *self.tracer).map(Some)
    }
}

impl<'de> MapAccess<'de> for Parts<'_, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.next_element_seed(seed)
    }
    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(&mut *self.tracer)
    }
}

struct Variant<'a, 'b> {
    tracer: &'a mut Tracer<'b>,
    now: usize,
}

impl<'de> EnumAccess<'de> for Variant<'_, '_> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self), Error> {
        let number: serde::de::value::U32Deserializer<Error> = (self.now as u32).into_deserializer();
        seed.deserialize(number).map(|variant| (variant, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, '_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }
    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.tracer)
    }
    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        self.tracer.deserialize_tuple(len, visitor)
    }
    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.tracer.deserialize_struct("", fields, visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::layout;
    use serde::Deserialize;

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its layout is of interest")]
    struct Thing {
        count: Option<u8>,
        kinds: Vec<Kind>,
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its layout is of interest")]
    enum Kind {
        None,
        Pair(f32, Inner),
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its layout is of interest")]
    enum Inner {
        A,
        B { at: [u16; 2] },
    }

    #[test]
    fn every_field_and_every_variant_is_in_a_layout() {
        let lines = [
            "Thing{count: option u8 kinds: list Kind } ",
            "Inner::A=0 ",
            "Inner::B=1 {at: u16 u16 } ",
            "Kind::None=0 ",
            "Kind::Pair=1 f32 Inner ",
        ];
        assert_eq!(layout::<Thing>().lines().collect::<Vec<_>>(), lines);
    }
}
