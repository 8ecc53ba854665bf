//! An index in a folder: documents are added, found, removed and merged, and the index is opened again.

use tantivy::aggregation::AggregationCollector;
use tantivy::aggregation::agg_req::Aggregations;
use tantivy::collector::{Count, TopDocs};
use tantivy::directory::MmapDirectory;
use tantivy::indexer::NoMergePolicy;
use tantivy::query::QueryParser;
use tantivy::schema::{FAST, Field, INDEXED, STORED, STRING, Schema, TEXT, Value};
use tantivy::{
    Index, IndexReader, IndexSettings, IndexWriter, Order, ReloadPolicy, TantivyDocument, Term, doc,
};

use crate::folder::Folder;

const WORDS: [&str; 10] =
    ["amber", "birch", "cedar", "daisy", "ebony", "fjord", "grove", "heath", "island", "juniper"];

const QUERIES: [&str; 8] = [
    "amber",
    "amber AND cedar",
    "\"birch cedar\"",
    "heath -island",
    "rank:[100 TO 160]",
    "key:k77",
    "title:17",
    "\"birch ced\"*",
];

struct Fields {
    key: Field,
    title: Field,
    body: Field,
    rank: Field,
}

fn schema() -> (Schema, Fields) {
    let mut schema = Schema::builder();
    let fields = Fields {
        key: schema.add_text_field("key", STRING | STORED | FAST),
        title: schema.add_text_field("title", TEXT | STORED),
        body: schema.add_text_field("body", TEXT),
        rank: schema.add_u64_field("rank", INDEXED | STORED | FAST),
    };
    (schema.build(), fields)
}

/// Adds documents with words that follow from their numbers.
fn add(writer: &IndexWriter, fields: &Fields, range: std::ops::Range<u64>) -> tantivy::Result<()> {
    for number in range {
        let words: Vec<&str> =
            crate_uses::numbers(number).take(8).map(|word| WORDS[word as usize % 10]).collect();
        writer.add_document(doc!(
            fields.key => format!("k{number}"),
            fields.title => format!("Document {number}"),
            fields.body => words.join(" "),
            fields.rank => number * 7 % 2503,
        ))?;
    }
    Ok(())
}

/// Prints the found documents by rank: the scores are computed by logarithms, and the last bits of these
/// differ between C libraries.
fn search(index: &Index, reader: &IndexReader, fields: &Fields) -> tantivy::Result<()> {
    reader.reload()?;
    let searcher = reader.searcher();
    println!("{} documents in {} segments", searcher.num_docs(), searcher.segment_readers().len());
    let mut parser = QueryParser::for_index(index, vec![fields.title, fields.body]);
    parser.set_field_boost(fields.title, 2.0);
    for text in QUERIES {
        let query = parser.parse_query(text)?;
        let top = TopDocs::with_limit(3).order_by_fast_field::<u64>("rank", Order::Desc);
        let (count, top) = searcher.search(&query, &(Count, top))?;
        let mut found = Vec::new();
        for (rank, address) in top {
            let document: TantivyDocument = searcher.doc(address)?;
            let title = document.get_first(fields.title).and_then(|value| value.as_str()).unwrap_or_default();
            found.push(format!("{title} {rank:?}"));
        }
        println!("{text}: {count} {found:?}");
    }
    let best = parser.parse_query("island^3 juniper")?;
    let best = searcher.search(&best, &TopDocs::with_limit(5).order_by_score())?;
    println!("best: {:?}", best.iter().map(|(score, _)| format!("{score:.2}")).collect::<Vec<_>>());
    Ok(())
}

/// Adds, searches, removes and merges.
fn fill(index: &Index, fields: &Fields) -> tantivy::Result<()> {
    let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
    let mut writer: IndexWriter = index.writer_with_num_threads(1, 20_000_000)?;
    writer.set_merge_policy(Box::new(NoMergePolicy));
    for part in 0..3 {
        add(&writer, fields, part * 400..(part + 1) * 400)?;
        writer.commit()?;
    }
    println!("second writer: {}", index.writer::<TantivyDocument>(20_000_000).is_err());
    search(index, &reader, fields)?;
    writer.delete_term(Term::from_field_text(fields.key, "k77"));
    writer.delete_term(Term::from_field_text(fields.body, "amber"));
    writer.commit()?;
    search(index, &reader, fields)?;
    add(&writer, fields, 2000..2010)?;
    writer.rollback()?;
    let merged = writer.merge(&index.searchable_segment_ids()?).wait()?;
    println!("merged: {}", merged.is_some_and(|segment| segment.num_deleted_docs() == 0));
    writer.garbage_collect_files().wait()?;
    writer.wait_merging_threads()?;
    search(index, &reader, fields)
}

pub fn run() -> crate_uses::Result {
    let folder = Folder::new("tantivy")?;
    let (schema, fields) = schema();
    let index = Index::open_or_create(MmapDirectory::open(folder.path())?, schema.clone())?;
    fill(&index, &fields)?;
    drop(index);

    let index = Index::open_in_dir(folder.path())?;
    println!("damaged: {}", index.validate_checksum()?.len());
    let reader = index.reader()?;
    search(&index, &reader, &fields)?;
    let request: Aggregations = serde_json::from_str(
        r#"{"ranks": {"histogram": {"field": "rank", "interval": 500.0},
                      "aggs": {"mean": {"avg": {"field": "rank"}}}}}"#,
    )?;
    let query = tantivy::query::AllQuery;
    let result =
        reader.searcher().search(&query, &AggregationCollector::from_aggs(request, Default::default()))?;
    println!("{}", serde_json::to_string(&result)?);

    println!("in memory");
    let index = Index::builder().schema(schema).settings(IndexSettings::default()).create_in_ram()?;
    fill(&index, &fields).map_err(Into::into)
}
