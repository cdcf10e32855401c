"""Words make sentences, sentences make documents."""
