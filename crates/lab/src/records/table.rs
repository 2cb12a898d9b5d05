//! One table on its way to a Parquet file: rows are pushed, columns are kept, a row group leaves when it is full.
//!
//! The file is the same to the byte for the same rows: no time stamp, no library version, a fixed order of everything.
//! Memory: one row group, whatever the number of rows.

use super::RecordError;
use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows of a full row group.
pub const ROW_GROUP: usize = 65_536;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text, from few different ones.
    Text,
    /// An unsigned number of 32 bits.
    U32,
    /// An unsigned number of 64 bits.
    U64,
    /// A signed number of 64 bits: instants since the simulation's start, and intervals, in nanoseconds.
    I64,
    /// A number with a fraction.
    F64,
}

/// A column of a table, with what a reader must know about it.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether a row may have no value here.
    pub nullable: bool,
    /// The unit; "1" for plain numbers, "" for text.
    pub unit: &'static str,
    /// What it means.
    pub description: &'static str,
    /// Whether it tells how the run was made and not what happened in it: such a column may differ between equal runs.
    pub provenance: bool,
}

impl Column {
    /// A column without missing values.
    pub const fn new(name: &'static str, kind: Kind, unit: &'static str, description: &'static str) -> Self {
        Self { name, kind, nullable: false, unit, description, provenance: false }
    }
    /// The same with missing values.
    pub const fn nullable(self) -> Self {
        Self { nullable: true, ..self }
    }
    /// The same as a column of provenance.
    pub const fn provenance(self) -> Self {
        Self { provenance: true, ..self }
    }
}

/// A table's name, meaning, and columns.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// The name, which is the file's too.
    pub name: &'static str,
    /// What a row is.
    pub description: &'static str,
    /// The columns in order.
    pub columns: &'static [Column],
}

/// The values of one column in the row group that is being filled.
#[derive(Debug)]
enum Values {
    Text { rows: Vec<u32>, names: Vec<ByteArray>, index: HashMap<Box<str>, u32> },
    I32(Vec<i32>),
    I64(Vec<i64>),
    F64(Vec<f64>),
}

#[derive(Debug)]
struct Buffer {
    values: Values,
    /// For a nullable column, 1 where a row has a value and 0 where it has none.
    present: Vec<i16>,
}

/// Writes one table to one file.
pub struct TableWriter {
    table: &'static Table,
    path: PathBuf,
    buffers: Vec<Buffer>,
    rows: usize,
    /// The column that the row under construction fills next.
    next: usize,
    file: SerializedFileWriter<File>,
}

impl TableWriter {
    /// Opens `table`'s file in `directory`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(table: &'static Table, directory: &Path) -> Result<Self, RecordError> {
        debug_assert!(cfg!(test) || super::ALL.iter().any(|known| known.name == table.name), "`{}` is in no list", table.name);
        let path = directory.join(format!("{}.parquet", table.name));
        let file = File::create_new(&path).map_err(|cause| RecordError::Io { path: path.clone(), cause })?;
        let metadata = vec![
            KeyValue::new("onionlab.table".to_owned(), table.description.to_owned()),
            KeyValue::new("onionlab.columns".to_owned(), describe(table)),
        ];
        let properties = WriterProperties::builder()
            .set_created_by("onionlab".to_owned())
            .set_compression(Compression::SNAPPY)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_key_value_metadata(Some(metadata))
            .build();
        let file = SerializedFileWriter::new(file, Arc::new(schema(table)?), Arc::new(properties))?;
        let buffers = table.columns.iter().map(Buffer::new).collect();
        Ok(Self { table, path, buffers, rows: 0, next: 0, file })
    }

    /// Appends a row: `fill` pushes one value for each column, in order and by its name.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn row(&mut self, fill: impl FnOnce(&mut Row<'_>)) -> Result<(), RecordError> {
        self.next = 0;
        fill(&mut Row(self));
        assert_eq!(self.next, self.table.columns.len(), "a row of `{}` fills every column", self.table.name);
        self.rows += 1;
        if self.rows == ROW_GROUP { self.flush() } else { Ok(()) }
    }

    /// Writes what is left and the file's footer.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(mut self) -> Result<(), RecordError> {
        if self.rows > 0 {
            self.flush()?;
        }
        self.file.finish()?;
        // A network file system may tell only now that the disk is full.
        self.file.inner().sync_data().map_err(|cause| RecordError::Io { path: self.path, cause })
    }

    fn flush(&mut self) -> Result<(), RecordError> {
        let mut group = self.file.next_row_group()?;
        for buffer in &mut self.buffers {
            let mut column = group.next_column()?.expect("as many columns as buffers");
            buffer.write(&mut column)?;
            column.close()?;
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }
}

/// A row under construction. Each value comes with the name of its column, at which tests look: what is out of order ends them.
pub struct Row<'a>(&'a mut TableWriter);

impl Row<'_> {
    fn next(&mut self, name: &str, kinds: &[Kind], nullable: bool) -> &mut Buffer {
        let TableWriter { table, buffers, next, .. } = &mut *self.0;
        let column = &table.columns[*next];
        debug_assert_eq!(column.name, name, "the columns of `{}` are filled in order", table.name);
        assert!(kinds.contains(&column.kind) && (!nullable || column.nullable), "`{}.{}` is {column:?}", table.name, column.name);
        *next += 1;
        let buffer = &mut buffers[*next - 1];
        if column.nullable && !nullable {
            buffer.present.push(1);
        }
        buffer
    }

    /// A text.
    pub fn text(&mut self, name: &str, text: &str) -> &mut Self {
        if let Values::Text { rows, names, index } = &mut self.next(name, &[Kind::Text], false).values {
            let known = index.get(text).copied().unwrap_or_else(|| {
                let new = names.len() as u32;
                names.push(ByteArray::from(text));
                index.insert(text.into(), new);
                new
            });
            rows.push(known);
        }
        self
    }

    /// An unsigned number, of 32 or 64 bits as the column says.
    pub fn number(&mut self, name: &str, number: u64) -> &mut Self {
        match &mut self.next(name, &[Kind::U32, Kind::U64], false).values {
            // Parquet keeps unsigned numbers in signed fields of the same width.
            Values::I32(rows) => rows.push(u32::try_from(number).unwrap_or(u32::MAX) as i32),
            Values::I64(rows) => rows.push(number as i64),
            _ => {}
        }
        self
    }

    /// An unsigned number, or none.
    pub fn number_if(&mut self, name: &str, number: Option<u64>) -> &mut Self {
        match number {
            Some(number) => self.number(name, number),
            None => self.missing(name, &[Kind::U32, Kind::U64]),
        }
    }

    /// An instant or an interval in nanoseconds.
    pub fn nanos(&mut self, name: &str, nanos: u64) -> &mut Self {
        if let Values::I64(rows) = &mut self.next(name, &[Kind::I64], false).values {
            rows.push(i64::try_from(nanos).unwrap_or(i64::MAX));
        }
        self
    }

    /// An instant or an interval in nanoseconds, or none.
    pub fn nanos_if(&mut self, name: &str, nanos: Option<u64>) -> &mut Self {
        match nanos {
            Some(nanos) => self.nanos(name, nanos),
            None => self.missing(name, &[Kind::I64]),
        }
    }

    /// A number with a fraction.
    pub fn fraction(&mut self, name: &str, fraction: f64) -> &mut Self {
        if let Values::F64(rows) = &mut self.next(name, &[Kind::F64], false).values {
            rows.push(fraction);
        }
        self
    }

    /// A number with a fraction, or none.
    pub fn fraction_if(&mut self, name: &str, fraction: Option<f64>) -> &mut Self {
        match fraction {
            Some(fraction) => self.fraction(name, fraction),
            None => self.missing(name, &[Kind::F64]),
        }
    }

    fn missing(&mut self, name: &str, kinds: &[Kind]) -> &mut Self {
        self.next(name, kinds, true).present.push(0);
        self
    }
}

impl Buffer {
    fn new(column: &Column) -> Self {
        let values = match column.kind {
            Kind::Text => Values::Text { rows: Vec::new(), names: Vec::new(), index: HashMap::new() },
            Kind::U32 => Values::I32(Vec::new()),
            Kind::U64 | Kind::I64 => Values::I64(Vec::new()),
            Kind::F64 => Values::F64(Vec::new()),
        };
        Self { values, present: Vec::new() }
    }

    fn write(&mut self, column: &mut SerializedColumnWriter<'_>) -> Result<(), RecordError> {
        let present = (!self.present.is_empty()).then_some(self.present.as_slice());
        match &mut self.values {
            Values::Text { rows, names, .. } => {
                let texts: Vec<ByteArray> = rows.iter().map(|row| names[*row as usize].clone()).collect();
                column.typed::<ByteArrayType>().write_batch(&texts, present, None)?;
                rows.clear();
            }
            Values::I32(rows) => {
                column.typed::<Int32Type>().write_batch(rows, present, None)?;
                rows.clear();
            }
            Values::I64(rows) => {
                column.typed::<Int64Type>().write_batch(rows, present, None)?;
                rows.clear();
            }
            Values::F64(rows) => {
                column.typed::<DoubleType>().write_batch(rows, present, None)?;
                rows.clear();
            }
        }
        self.present.clear();
        Ok(())
    }
}

fn schema(table: &Table) -> Result<Type, RecordError> {
    let fields = table.columns.iter().map(|column| {
        let (physical, logical) = match column.kind {
            Kind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::U32 => (PhysicalType::INT32, Some(LogicalType::integer(32, false))),
            Kind::U64 => (PhysicalType::INT64, Some(LogicalType::integer(64, false))),
            Kind::I64 => (PhysicalType::INT64, None),
            Kind::F64 => (PhysicalType::DOUBLE, None),
        };
        let repetition = if column.nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let field = Type::primitive_type_builder(column.name, physical).with_logical_type(logical).with_repetition(repetition);
        Ok(Arc::new(field.build()?))
    });
    let fields = fields.collect::<Result<Vec<_>, RecordError>>()?;
    Ok(Type::group_type_builder(table.name).with_fields(fields).build()?)
}

/// The columns as JSON: name to unit, description, and whether it is provenance.
fn describe(table: &Table) -> String {
    let columns = table.columns.iter().map(|column| {
        let about = serde_json::json!({
            "unit": column.unit,
            "description": column.description,
            "provenance": column.provenance,
        });
        (column.name.to_owned(), about)
    });
    serde_json::Value::Object(columns.collect()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    const SAMPLE: Table = Table {
        name: "sample",
        description: "A sample.",
        columns: &[
            Column::new("name", Kind::Text, "", "A name."),
            Column::new("small", Kind::U32, "1", "A small number.").nullable(),
            Column::new("large", Kind::U64, "1", "A large number."),
            Column::new("time_ns", Kind::I64, "ns", "An instant.").nullable(),
            Column::new("share", Kind::F64, "1", "A share.").provenance(),
        ],
    };

    fn written(name: &str, rows: u64) -> (Vec<u8>, std::path::PathBuf) {
        let folder = std::env::temp_dir().join(format!("onionlab-table-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let mut writer = TableWriter::create(&SAMPLE, &folder).unwrap();
        for row in 0..rows {
            let odd = row % 2 == 1;
            writer
                .row(|r| {
                    r.text("name", if odd { "odd" } else { "even" })
                        .number_if("small", odd.then_some(u64::from(u32::MAX)))
                        .number("large", u64::MAX - row)
                        .nanos_if("time_ns", (!odd).then_some(row))
                        .fraction("share", row as f64 / 2.0);
                })
                .unwrap();
        }
        writer.finish().unwrap();
        let path = folder.join("sample.parquet");
        (std::fs::read(&path).unwrap(), folder)
    }

    #[test]
    fn what_is_written_is_read_back_across_row_groups() {
        let rows = ROW_GROUP as u64 + 3;
        let (_, folder) = written("read", rows);
        let reader = SerializedFileReader::new(File::open(folder.join("sample.parquet")).unwrap()).unwrap();
        assert_eq!(reader.num_row_groups(), 2);
        let mut count = 0;
        for (index, row) in reader.get_row_iter(None).unwrap().enumerate() {
            let values: Vec<Field> = row.unwrap().get_column_iter().map(|(_, field)| field.clone()).collect();
            let index = index as u64;
            let odd = index % 2 == 1;
            assert_eq!(values[0], Field::Str(if odd { "odd" } else { "even" }.to_owned()));
            assert_eq!(values[1], if odd { Field::UInt(u32::MAX) } else { Field::Null });
            assert_eq!(values[2], Field::ULong(u64::MAX - index));
            assert_eq!(values[3], if odd { Field::Null } else { Field::Long(index as i64) });
            assert_eq!(values[4], Field::Double(index as f64 / 2.0));
            count += 1;
        }
        assert_eq!(count, rows);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_same_rows_are_the_same_bytes_and_the_footer_tells_what_they_mean() {
        let (first, folder) = written("bytes", 1000);
        let reader = SerializedFileReader::new(File::open(folder.join("sample.parquet")).unwrap()).unwrap();
        let metadata = reader.metadata().file_metadata();
        assert_eq!(metadata.created_by(), Some("onionlab"));
        let columns = metadata.key_value_metadata().unwrap().iter().find(|pair| pair.key == "onionlab.columns").unwrap();
        let columns: serde_json::Value = serde_json::from_str(columns.value.as_ref().unwrap()).unwrap();
        assert_eq!(columns["time_ns"]["unit"], "ns");
        assert_eq!(columns["share"]["provenance"], true);
        std::fs::remove_dir_all(folder).unwrap();
        assert!(first == written("bytes", 1000).0);
        assert!(first != written("bytes", 1001).0);
    }

    #[test]
    #[should_panic(expected = "fills every column")]
    fn a_row_that_lacks_a_column_is_a_defect_of_the_program() {
        let folder = std::env::temp_dir().join(format!("onionlab-table-lack-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let mut writer = TableWriter::create(&SAMPLE, &folder).unwrap();
        let _ = writer.row(|r| {
            r.text("name", "short");
        });
    }
}
